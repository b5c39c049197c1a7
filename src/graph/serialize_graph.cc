#include "graph/serialize_graph.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/mutex.h"
#include "base/raise.h"
#include "graph/graph_impl.h"
#include "graph/wire_format.h"
#include "ops/op.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {
namespace {

// Runs `body`; what it throws gets `where` in front and keeps its code.
template <typename Body>
void at_place(const std::string& where, Body&& body) {
  Status status = capture_status(std::forward<Body>(body));
  if (status.ok()) return;
  if (!status.message.starts_with("[Graph] ")) status.message = where + ": " + status.message;
  throw Error(std::move(status));
}

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
  Mutex mutex_;
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
    raise(status.code, "function '{}' uses iterator '{}', whose dataset cannot be encoded: {}",
          function, source.name(), status.message);
  }
  out.set_name(source.name());
  out.set_structure(source.layout().structure);
  for (const Spec& spec : unpack_specs("Iterator", source.layout().components)) {
    write_spec(spec, *out.add_tensors());
  }
}

// Writes the capture of the function at that index. Throws FailedPrecondition, naming the capture,
// when a reader in another process could neither find it nor make it.
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
          "and cannot be encoded",
          function.name);
  }
}

class Writer {
 public:
  Writer() { begin(); }

  // Starts another document, which may use the functions of those before.
  void begin() {
    document_.Clear();
    document_.set_format(kGraphFormat);
    document_.set_producer(COHORT_VERSION);
  }

  // Writes the nodes and variables that were added since the last call.
  void graph(const GraphImpl& graph) {
    const auto variables = graph.variables();  // before the nodes, so that theirs are there
    for (const int size = graph.size(); next_node_ < size; ++next_node_) {
      node(graph, next_node_, *document_.add_nodes(), "");
    }
    for (; next_variable_ < variables.size(); ++next_variable_) {
      write_variable(graph, variables[next_variable_], *document_.add_variables());
    }
  }
  int next_node() const { return next_node_; }

  void function(const GraphFunction& function) { document_.set_function(add(function)); }

  std::string bytes() const {
    const size_t size = document_.ByteSizeLong();
    if (static_cast<int64_t>(size) > kMaxDocumentBytes) {
      raise(Code::ResourceExhausted,
            "[Graph] the graph takes {} bytes, but at most {} are possible; feed large values "
            "instead of making them constants",
            size, kMaxDocumentBytes);
    }
    return document_.SerializeAsString();
  }

 private:
  void node(const GraphImpl& graph, int id, message::Node& out, const std::string& function) {
    const Node& from = graph.node(id);
    const std::string where =
        fmt::format("[Graph] node '{}' ({}){}{} cannot be serialized", from.name, from.op->name,
                    function.empty() ? "" : " of function ", function);
    at_place(where, [&] { fill(graph, id, out); });
  }

  static void write_variable(const GraphImpl& graph, const GraphImpl::VariableRecord& from,
                             message::GraphVariable& out) {
    out.set_handle(output_name(graph, graph.node_output(from.handle.handle)));
    out.set_initializer(output_name(graph, graph.node_output(from.initializer)));
    write_spec({from.handle.dtype, from.handle.shape}, *out.mutable_spec());
    out.set_trainable(from.options.trainable.value_or(true));
    out.set_synchronization(static_cast<uint32_t>(from.options.synchronization));
    out.set_aggregation(static_cast<uint32_t>(from.options.aggregation));
  }

  void fill(const GraphImpl& graph, int id, message::Node& out) {
    const Node& from = graph.node(id);
    if (find_op_or_null(from.op->name) == nullptr) {
      raise(Code::FailedPrecondition, "its op exists in this process only");
    }
    out.set_name(from.name);
    out.set_op(std::string(from.op->name));
    for (const NodeOutput input : from.inputs) out.add_inputs(output_name(graph, input));
    for (const int before : from.controls) out.add_inputs("^" + graph.node(before).name);
    out.set_device(own_request(graph, id).to_string());
    for (const std::string& name : from.colocated_with) out.add_colocated_with(name);
    for (const Attrs::Entry& entry : from.attrs.entries()) {
      message::Attr& attr = *out.add_attrs();
      attr.set_name(std::string(entry.first));
      std::visit([&](const auto& value) { write(value, attr); }, entry.second);
    }
    for (const Spec& spec : from.outputs) write_spec(spec, *out.add_outputs());
    if (from.site.line != 0 || *from.site.file != '\0') {
      out.mutable_site()->set_file(from.site.file);
      out.mutable_site()->set_line(from.site.line);
    }
  }

  void write(bool value, message::Attr& out) { out.set_flag(value); }
  void write(int64_t value, message::Attr& out) { out.set_integer(value); }
  void write(double value, message::Attr& out) { out.set_number(value); }
  void write(const std::string& value, message::Attr& out) { out.set_text(value); }
  void write(DType value, message::Attr& out) { out.set_dtype(to_string(value)); }
  void write(const Shape& value, message::Attr& out) { write_shape(value, *out.mutable_shape()); }
  void write(const std::vector<int64_t>& value, message::Attr& out) {
    out.mutable_integers()->mutable_values()->Add(value.begin(), value.end());
  }
  void write(const std::vector<std::string>& value, message::Attr& out) {
    out.mutable_texts()->mutable_values()->Add(value.begin(), value.end());
  }
  void write(const Tensor& value, message::Attr& out) {
    write_tensor(value, *out.mutable_tensor());
  }
  void write(const FunctionPtr& value, message::Attr& out) {
    if (!value) raise(Code::FailedPrecondition, "an attribute holds no function");
    if (!value->captured.empty()) {
      raise(Code::FailedPrecondition, "function '{}' uses tensors that are not its arguments",
            value->name);
    }
    out.set_function(add(*value));
  }

  // The name under which the function is in the document, after those that it uses itself.
  std::string add(const GraphFunction& function) {
    if (const auto known = names_.find(&function); known != names_.end()) return known->second;
    if (++depth_ > kDeepestNesting) {
      raise(Code::FailedPrecondition, "functions are nested more than {} deep", kDeepestNesting);
    }
    message::Function made;
    for (int id = 0; id < function.body->size(); ++id) {
      node(*function.body, id, *made.add_nodes(), "'" + function.name + "'");
    }
    for (const NodeOutput argument : function.arguments) {
      made.add_arguments(output_name(*function.body, argument));
    }
    for (const NodeOutput result : function.results) {
      made.add_results(output_name(*function.body, result));
    }
    for (const int effect : function.effects) {
      made.add_effects(function.body->node(effect).name);
    }
    for (size_t i = 0; i < function.captured.size(); ++i) {
      write_capture(function, i, *made.add_captures());
    }
    made.set_name(unique(function.name));
    --depth_;
    *document_.add_functions() = std::move(made);
    return names_[&function] = document_.functions().rbegin()->name();
  }

  std::string unique(const std::string& name) {
    const std::string base = name.empty() ? "function" : name;
    std::string candidate = base;
    for (int i = 1; !taken_.insert(candidate).second; ++i)
      candidate = fmt::format("{}_{}", base, i);
    return candidate;
  }

  message::Document document_;
  std::unordered_map<const GraphFunction*, std::string> names_;
  std::set<std::string> taken_;
  int depth_ = 0;
  int next_node_ = 0;
  size_t next_variable_ = 0;
};

}  // namespace

std::string serialize_graph(const GraphImpl& graph) {
  Writer writer;
  writer.graph(graph);
  return writer.bytes();
}

struct GraphWriter::State {
  std::shared_ptr<const GraphImpl> graph;
  Writer writer = {};
};

GraphWriter::GraphWriter(std::shared_ptr<const GraphImpl> graph)
    : state_(std::make_unique<State>(State{std::move(graph)})) {}
GraphWriter::~GraphWriter() = default;

bool GraphWriter::has_more() const { return state_->writer.next_node() < state_->graph->size(); }

std::string GraphWriter::next() {
  Writer attempt = state_->writer;  // what fails is asked for again
  attempt.begin();
  attempt.graph(*state_->graph);
  std::string bytes = attempt.bytes();
  attempt.begin();
  state_->writer = std::move(attempt);
  return bytes;
}

std::string serialize_function(const GraphFunction& function) {
  Writer writer;
  writer.function(function);
  return writer.bytes();
}

}  // namespace internal

std::string Graph::serialize() const { return internal::serialize_graph(*impl_); }

}  // namespace cohort
