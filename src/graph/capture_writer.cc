#include "graph/capture_writer.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <optional>

#include "base/raise.h"
#include "ops/element_source.h"
#include "ops/spec_list.h"
#include "ops/variable_cell.h"

namespace cohort::internal {
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

// The names under which the variables of this process travel. Several variables may have one label,
// so the label is the name of the first that travels, and later ones get a number:
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

}  // namespace

void CaptureWriter::write(size_t index, message::Capture& out) const {
  const Tensor& captured = function_.captured[index];
  if (captured.is_symbolic()) return write_tensor(captured, out);
  const std::shared_ptr<Resource> resource = resource_of(captured);
  if (const auto cell = std::dynamic_pointer_cast<VariableCell>(resource)) {
    return write_variable(index, cell, out);
  }
  if (const auto* source = dynamic_cast<const ElementSource*>(resource.get())) {
    return write_iterator(*source, *out.mutable_iterator());
  }
  raise(Code::FailedPrecondition,
        "function '{}' uses state of this process that is neither a variable nor an iterator, and "
        "cannot travel",
        function_.name);
}

void CaptureWriter::write_tensor(const Tensor& symbol, message::Capture& out) const {
  const std::shared_ptr<GraphImpl> graph = graph_of(symbol);
  out.set_tensor(output_name(*graph, graph->node_output(symbol)));
  write_spec({symbol.dtype(), symbol.shape()}, *out.mutable_spec());
}

void CaptureWriter::write_variable(size_t index, const std::shared_ptr<VariableCell>& cell,
                                   message::Capture& out) const {
  out.set_variable(variable_names().name_of(cell->name(), cell));
  write_spec(variable_spec(function_, argument(index), *cell), *out.mutable_spec());
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
