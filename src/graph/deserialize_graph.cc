#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/raise.h"
#include "graph/serialize_graph.h"
#include "graph/wire_format.h"
#include "ops/all_ops.h"
#include "ops/op.h"

namespace cohort {
namespace internal {
namespace {

message::Document parse(std::string_view bytes) {
  check_wire(bytes, kGraphFormat);
  message::Document document;
  if (!document.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    raise(Code::InvalidArgument, "[Graph] the bytes are not a serialized graph, or are damaged");
  }
  return document;
}

// In the order of CaptureKind.
constexpr std::string_view kCaptureKinds[] = {"variable", "tensor", "iterator"};

ElementLayout read_layout(const message::Iterator& in) {
  Specs specs;
  for (const message::Spec& spec : in.tensors()) specs.push_back(read_spec(spec));
  ElementLayout layout{in.structure(), pack_specs(specs)};
  unpack_specs("Iterator", layout.components);  // throws
  return layout;
}

// The dtype of the argument that stands for the capture.
DType argument_dtype(const CaptureInfo& capture) {
  return capture.kind == CaptureKind::Tensor ? capture.spec.dtype : kResource;
}

bool fits_capture(const CaptureInfo& capture, const Tensor& supplied) {
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

// Reads the capture of `function` that the message describes. Throws InvalidArgument.
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
    raise(Code::InvalidArgument,
          "the capture names neither a tensor nor a variable nor an iterator");
  }
  if (in.has_variable()) {
    info.kind = CaptureKind::Variable;
    info.name = in.variable();
  }
  info.spec = read_spec(in.spec());
  return info;
}

// Asks `bind` for the capture. Throws FailedPrecondition when `bind` is null, or when what `bind`
// supplies does not fit.
Tensor bound(const CaptureInfo& capture, const BindCapture& bind) {
  const std::string what =
      fmt::format("{} {} of function {}", kCaptureKinds[static_cast<size_t>(capture.kind)],
                  quoted(capture.name), quoted(capture.function));
  if (!bind) raise(Code::FailedPrecondition, "[Graph] the caller does not supply {}", what);
  Tensor supplied = bind(capture);
  if (!fits_capture(capture, supplied)) {
    raise(Code::FailedPrecondition, "[Graph] the value supplied for {} does not fit: {}", what,
          supplied.defined() ? supplied.to_string() : "nothing");
  }
  return supplied;
}

struct ReadFunction {
  std::shared_ptr<GraphFunction> made;
  int depth = 1;  // of the functions inside, counting itself
  bool captures = false;
};

class Reader {
 public:
  explicit Reader(const BindCapture& bind) : bind_(bind) {}

  std::shared_ptr<GraphImpl> graph(const message::Document& document, NodesOf kind) {
    if (document.nodes_size() == 0 && document.functions_size() > 0) {
      raise(Code::InvalidArgument, "[Graph] the bytes hold a function, not a graph");
    }
    read_functions(document);
    std::shared_ptr<GraphImpl> made = nodes(document.nodes(), kind).graph;
    for (const message::GraphVariable& variable : document.variables()) {
      read_variable(variable, *made);
    }
    return made;
  }

  FunctionPtr function(const message::Document& document) {
    if (document.nodes_size() > 0 || document.functions_size() == 0) {
      raise(Code::InvalidArgument, "[Graph] the bytes hold a graph, not a function");
    }
    const message::Function& last = *document.functions().rbegin();
    if (last.name() != document.function()) {
      raise(Code::InvalidArgument,
            "[Graph] the last function must be {}, got {}: the bytes are cut off or damaged",
            quoted(document.function()), quoted(last.name()));
    }
    read_functions(document);
    const std::shared_ptr<GraphFunction>& made = functions_.at(last.name()).made;
    for (const message::Capture& capture : last.captures()) {
      made->captured.push_back(bound(read_capture(last.name(), capture), bind_));
    }
    return made;
  }

 private:
  struct Nodes {
    std::shared_ptr<GraphImpl> graph;
    int depth = 0;  // of the functions that the nodes use
  };

  [[noreturn]] static void raise_at(const message::GraphVariable& variable,
                                    std::string_view reason) {
    raise(Code::InvalidArgument, "[Graph] variable {}: {}", quoted(variable.handle()), reason);
  }

  void read_variable(const message::GraphVariable& from, GraphImpl& graph) {
    const Status status = capture_status([&] { add_variable(from, graph); });
    if (status.ok()) return;
    if (status.message.starts_with("[Graph] ")) throw Error(status);
    raise_at(from, status.message);
  }

  void add_variable(const message::GraphVariable& from, GraphImpl& graph) {
    const NodeOutput handle = read_node_output(graph, from.handle());
    const NodeOutput initializer = read_node_output(graph, from.initializer());
    check_variable(from, graph, handle, initializer);
    const Spec spec = read_spec(from.spec());
    if (!spec.is_compatible_with(graph.node(initializer.node).outputs[0])) {
      raise_at(from, "its dtype and shape do not fit its initial value");
    }
    const Node& node = graph.node(handle.node);
    graph.add_variable(
        {.variable = nullptr,
         .initializer = graph.symbol(initializer),
         .handle = {.handle = graph.symbol(handle),
                    .name = node.attrs.get<std::string>("shared_name"),
                    .dtype = spec.dtype,
                    .shape = spec.shape},
         .options = {
             .name = node.name,
             .trainable = from.trainable(),
             .dtype = spec.dtype,
             .shape = spec.shape,
             .synchronization = static_cast<VariableSynchronization>(from.synchronization()),
             .aggregation = static_cast<VariableAggregation>(from.aggregation())}});
  }

  void check_variable(const message::GraphVariable& from, const GraphImpl& graph, NodeOutput handle,
                      NodeOutput initializer) {
    const Node& assign = graph.node(initializer.node);
    if (graph.node(handle.node).op != &kVariableHandle) {
      raise_at(from, "its node is not the handle of a variable");
    }
    if (!variables_.insert(handle.node).second) raise_at(from, "the variable is listed twice");
    if (assign.op != &kAssignVariable || assign.inputs[0] != handle) {
      raise_at(from, "its initializer does not assign to it");
    }
    if (from.synchronization() > static_cast<uint32_t>(VariableSynchronization::OnRead) ||
        from.aggregation() > static_cast<uint32_t>(VariableAggregation::OnlyFirstReplica)) {
      raise_at(from, "its synchronization or aggregation is unknown");
    }
  }

  // Runs `body`, whose faults are those of the function that was read.
  template <typename Body>
  static void at_function(const message::Function& from, Body&& body) {
    Status status = capture_status(std::forward<Body>(body));
    if (status.ok()) return;
    const bool located = status.message.starts_with("[Graph] ");
    raise(Code::InvalidArgument, "[Graph] function {}: {}", quoted(from.name()),
          located ? status.message.substr(8) : status.message);
  }

  void read_functions(const message::Document& document) {
    for (const message::Function& from : document.functions()) {
      ReadFunction made{.made = std::make_shared<GraphFunction>(),
                        .captures = from.captures_size() > 0};
      at_function(from, [&] { read(from, made); });
      functions_.emplace(from.name(), std::move(made));
    }
  }

  void read(const message::Function& from, ReadFunction& made) {
    if (from.name().empty() || functions_.contains(from.name())) {
      raise(Code::InvalidArgument, "its name is empty or belongs to another function");
    }
    const Nodes body = nodes(from.nodes(), NodesOf::Function);
    made.depth = body.depth + 1;
    if (made.depth > kDeepestNesting) {
      raise(Code::InvalidArgument, "functions are nested more than {} deep", kDeepestNesting);
    }
    made.made->name = from.name();
    read_arguments(from, *body.graph, *made.made);
    for (const std::string& result : from.results()) {
      made.made->results.push_back(read_node_output(*body.graph, result));
    }
    for (const std::string& effect : from.effects()) {
      const int node = body.graph->find(effect);
      if (node < 0) raise(Code::InvalidArgument, "there is no node {}", quoted(effect));
      made.made->effects.push_back(node);
    }
    body.graph->finalize();
    made.made->body = body.graph;
    check_captures(from, *made.made);
  }

  static void read_arguments(const message::Function& from, const GraphImpl& graph,
                             GraphFunction& made) {
    std::set<NodeOutput> known;
    for (const std::string& argument : from.arguments()) {
      made.arguments.push_back(read_node_output(graph, argument));
      const NodeOutput added = made.arguments.back();
      if (graph.node(added.node).op != &kArgument || !known.insert(added).second) {
        raise(Code::InvalidArgument, "{} is not an argument, or comes twice", quoted(argument));
      }
    }
    int there = 0;
    for (int id = 0; id < graph.size(); ++id) there += graph.node(id).op == &kArgument ? 1 : 0;
    if (static_cast<size_t>(there) != known.size()) {
      raise(Code::InvalidArgument, "{} arguments are listed, but the body has {}", known.size(),
            there);
    }
  }

  // They stand for the last arguments.
  static void check_captures(const message::Function& from, const GraphFunction& made) {
    const auto count = static_cast<size_t>(from.captures_size());
    if (count > made.arguments.size()) {
      raise(Code::InvalidArgument, "the function captures {} tensors, but has only {} arguments",
            count, made.arguments.size());
    }
    for (size_t i = 0; i < count; ++i) {
      const NodeOutput argument = made.arguments[made.arguments.size() - count + i];
      const DType dtype = made.body->node(argument.node).outputs[0].dtype;
      DType expected = dtype;
      const Status status = capture_status([&] {
        const message::Capture& capture = from.captures(static_cast<int>(i));
        expected = argument_dtype(read_capture(from.name(), capture));
      });
      if (!status.ok()) raise(Code::InvalidArgument, "capture {}: {}", i, status.message);
      if (dtype != expected) {
        raise(Code::InvalidArgument, "capture {} does not fit its argument, which is {}", i,
              to_string(dtype));
      }
    }
  }

  Nodes nodes(const google::protobuf::RepeatedPtrField<message::Node>& from, NodesOf kind) {
    Nodes made;
    made.graph = read_nodes(from, kind, [&](const std::string& name) {
      const auto found = functions_.find(name);
      if (found == functions_.end()) {
        raise(Code::InvalidArgument, "function {} is not listed before its use", quoted(name));
      }
      if (found->second.captures) {
        raise(Code::InvalidArgument, "function {} captures tensors, so a node cannot use it",
              quoted(name));
      }
      made.depth = std::max(made.depth, found->second.depth);
      return found->second.made;
    });
    return made;
  }

  const BindCapture& bind_;
  std::map<std::string, ReadFunction> functions_;
  std::set<int> variables_;  // handles of those read so far
};

}  // namespace

std::shared_ptr<GraphImpl> deserialize_graph(std::string_view bytes) {
  return Reader({}).graph(parse(bytes), NodesOf::Graph);
}

std::shared_ptr<GraphImpl> deserialize_part(std::string_view bytes) {
  return Reader({}).graph(parse(bytes), NodesOf::Part);
}

struct GraphReader::State {
  message::Document document;
};

GraphReader::GraphReader() : state_(std::make_unique<State>()) {}
GraphReader::~GraphReader() = default;

std::shared_ptr<GraphImpl> GraphReader::add(std::string_view bytes) {
  message::Document whole = state_->document;
  whole.MergeFrom(parse(bytes));
  std::shared_ptr<GraphImpl> graph = Reader({}).graph(whole, NodesOf::Graph);
  state_->document = std::move(whole);
  return graph;
}

FunctionPtr deserialize_function(std::string_view bytes, const BindCapture& bind) {
  const message::Document document = parse(bytes);
  return Reader(bind).function(document);
}

}  // namespace internal

Graph Graph::deserialize(std::string_view bytes) {
  return internal::GraphAccess::make(internal::deserialize_graph(bytes));
}

}  // namespace cohort
