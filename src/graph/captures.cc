#include "graph/captures.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>

#include "base/raise.h"
#include "graph/read_nodes.h"
#include "ops/element_source.h"
#include "ops/op.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

namespace {

std::string_view to_string(CaptureKind kind) {
  switch (kind) {
    case CaptureKind::Variable:
      return "variable";
    case CaptureKind::Tensor:
      return "tensor";
    case CaptureKind::Iterator:
      return "iterator";
  }
  return "";
}

ElementLayout read_layout(const message::Iterator& in) {
  Specs specs;
  for (const message::Spec& spec : in.tensors()) specs.push_back(read_spec(spec));
  ElementLayout layout{in.structure(), pack_specs(specs)};
  unpack_specs("Iterator", layout.components);  // throws
  return layout;
}

bool fits(const CaptureInfo& capture, const Tensor& supplied) {
  if (!supplied.defined() || supplied.dtype() != argument_dtype(capture)) return false;
  switch (capture.kind) {
    case CaptureKind::Variable:
      return true;
    case CaptureKind::Tensor:
      return supplied.shape().is_compatible_with(capture.spec.shape);
    case CaptureKind::Iterator:
      return is_compatible(source_of(supplied).layout(), capture.elements);
  }
  return false;
}

}  // namespace

CaptureInfo read_capture(const std::string& function, const message::Capture& in) {
  CaptureInfo info{.function = function, .kind = CaptureKind::Tensor, .name = in.tensor()};
  if (in.has_iterator()) {
    info.kind = CaptureKind::Iterator;
    info.name = in.iterator().name();
    info.elements = read_layout(in.iterator());
    info.dataset = in.iterator().dataset();
    return info;
  }
  if (in.from_case() == message::Capture::FROM_NOT_SET) {
    raise(Code::InvalidArgument, "what it captures is not said");
  }
  if (in.has_variable()) {
    info.kind = CaptureKind::Variable;
    info.name = in.variable();
  }
  info.spec = read_spec(in.spec());
  return info;
}

DType argument_dtype(const CaptureInfo& capture) {
  return capture.kind == CaptureKind::Tensor ? capture.spec.dtype : kResource;
}

Tensor bound(const CaptureInfo& capture, const BindCapture& bind) {
  const std::string what = fmt::format("{} {} of function {}", to_string(capture.kind),
                                       quoted(capture.name), quoted(capture.function));
  if (!bind) raise(Code::FailedPrecondition, "[Graph] nobody supplies {}", what);
  Tensor supplied = bind(capture);
  if (!fits(capture, supplied)) {
    raise(Code::FailedPrecondition, "[Graph] what was supplied for {} does not fit: {}", what,
          supplied.defined() ? supplied.to_string() : "nothing");
  }
  return supplied;
}

namespace {

// Dtype and shape of what a variable holds, as its reads and writes in the body declare them.
Spec variable_spec(const GraphFunction& function, NodeOutput argument, const VariableCell& cell) {
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    if (node.inputs.empty() || node.inputs[0] != argument) continue;
    if (!node.attrs.has("dtype") || !node.attrs.has("shape")) continue;
    return {node.attrs.get<DType>("dtype"), node.attrs.get<Shape>("shape")};
  }
  const Tensor value = cell.read();
  return {value.dtype(), value.shape()};
}

// The names of variables in serialized functions. Several variables may have one label, so the
// first one that is serialized has the label as its name, and later ones get a number:
// "dense/kernel_1". A variable keeps its name while it lives, so that all functions that use it
// agree.
class VariableNames {
 public:
  std::string name_of(const std::string& label, const std::shared_ptr<Resource>& variable) {
    const std::lock_guard lock(mutex_);
    std::optional<std::string> free;
    for (int i = 0;; ++i) {
      const std::string name = i == 0 ? label : fmt::format("{}_{}", label, i);
      const auto holder = holders_.find(name);
      const bool is_new = holder == holders_.end();
      const std::shared_ptr<Resource> held = is_new ? nullptr : holder->second.lock();
      if (held == variable) return name;
      if (held == nullptr && !free) free = name;
      if (is_new) break;
    }
    holders_[*free] = variable;
    return *free;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Resource>> holders_;  // guarded by mutex_
};

VariableNames& variable_names() {
  static VariableNames names;
  return names;
}

void write_tensor_capture(const Tensor& symbol, message::Capture& out) {
  const std::shared_ptr<GraphImpl> graph = graph_of(symbol);
  out.set_tensor(output_name(*graph, graph->node_output(symbol)));
  write_spec({symbol.dtype(), symbol.shape()}, *out.mutable_spec());
}

void write_iterator(const std::string& function, const ElementSource& source,
                    message::Iterator& out) {
  const Status status = capture_status([&] { out.set_dataset(source.describe_dataset()); });
  if (!status.ok()) {
    raise(status.code, "function '{}' uses iterator '{}', whose dataset cannot travel: {}",
          function, source.name(), status.message);
  }
  out.set_name(source.name());
  out.set_structure(source.layout().structure);
  for (const Spec& spec : unpack_specs("Iterator", source.layout().components)) {
    write_spec(spec, *out.add_tensors());
  }
}

}  // namespace

void write_capture(const GraphFunction& function, size_t index, message::Capture& out) {
  const Tensor& captured = function.captured[index];
  if (captured.is_symbolic()) return write_tensor_capture(captured, out);
  const std::shared_ptr<Resource> resource = resource_of(captured);
  if (const auto cell = std::dynamic_pointer_cast<VariableCell>(resource)) {
    const NodeOutput argument = function.arguments[function.num_own_arguments() + index];
    out.set_variable(variable_names().name_of(cell->name(), cell));
    write_spec(variable_spec(function, argument, *cell), *out.mutable_spec());
  } else if (const auto* source = dynamic_cast<const ElementSource*>(resource.get())) {
    write_iterator(function.name, *source, *out.mutable_iterator());
  } else {
    raise(Code::FailedPrecondition,
          "function '{}' uses state of this process that is neither a variable nor an iterator, "
          "and cannot travel",
          function.name);
  }
}

}  // namespace cohort::internal
