#include "graph/capture_writer.h"

#include "base/raise.h"
#include "ops/element_source.h"
#include "ops/spec_list.h"
#include "ops/variable_cell.h"

namespace cohort::internal {
namespace {

// Dtype and shape of what a variable holds, as its reads and writes in the body declare them.
Spec variable_spec(const GraphFunction& function, Endpoint argument, const VariableCell& cell) {
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    if (node.inputs.empty() || node.inputs[0] != argument) continue;
    if (!node.attrs.has("dtype") || !node.attrs.has("shape")) continue;
    return {node.attrs.get<DType>("dtype"), node.attrs.get<Shape>("shape")};
  }
  const Tensor value = cell.read();
  return {value.dtype(), value.shape()};
}

}  // namespace

void CaptureWriter::write(size_t index, message::Capture& out) {
  const Tensor& captured = function_.captured[index];
  if (captured.is_symbolic()) return write_tensor(captured, out);
  const Resource* resource = resource_of(captured).get();
  if (const auto* cell = dynamic_cast<const VariableCell*>(resource)) {
    return write_variable(index, *cell, out);
  }
  if (const auto* source = dynamic_cast<const ElementSource*>(resource)) {
    return write_iterator(*source, *out.mutable_iterator());
  }
  raise(Code::FailedPrecondition,
        "function '{}' uses state of this process that is neither a variable nor an iterator, and "
        "cannot travel",
        function_.name);
}

void CaptureWriter::write_tensor(const Tensor& symbol, message::Capture& out) const {
  const std::shared_ptr<GraphImpl> graph = graph_of(symbol);
  out.set_tensor(endpoint_name(*graph, graph->endpoint(symbol)));
  write_spec({symbol.dtype(), symbol.shape()}, *out.mutable_spec());
}

void CaptureWriter::write_variable(size_t index, const VariableCell& cell, message::Capture& out) {
  if (!variables_.emplace(cell.name(), &cell).second) {
    raise(Code::FailedPrecondition,
          "function '{}' uses two variables named '{}', which nothing tells apart elsewhere; give "
          "each a name of its own",
          function_.name, cell.name());
  }
  out.set_variable(cell.name());
  write_spec(variable_spec(function_, argument(index), cell), *out.mutable_spec());
}

void CaptureWriter::write_iterator(const ElementSource& source, message::Iterator& out) const {
  const Status status = capture_status([&] { out.set_dataset(source.describe_dataset()); });
  if (!status.ok()) {
    raise(status.code, "function '{}' uses iterator '{}', whose dataset cannot travel: {}",
          function_.name, source.name(), status.message);
  }
  out.set_name(source.name());
  out.set_structure(source.layout().structure);
  for (const Spec& spec : unpack_specs("Iterator", source.layout().components)) {
    write_spec(spec, *out.add_tensors());
  }
}

}  // namespace cohort::internal
