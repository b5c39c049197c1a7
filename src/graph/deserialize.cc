#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/raise.h"
#include "graph/read_nodes.h"
#include "graph/serialize.h"
#include "graph/wire_check.h"

namespace cohort {
namespace internal {

extern const OpDef kArgument;

namespace {

message::Document parse(std::string_view bytes) {
  check_wire(bytes, kGraphFormat);
  message::Document document;
  if (!document.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    raise(Code::InvalidArgument, "[Graph] the bytes are not a serialized graph, or are damaged");
  }
  return document;
}

// A function while the document is read. What it captured of the graph around it is known only when
// that graph is.
struct FunctionInProgress {
  std::shared_ptr<GraphFunction> made;
  const message::Function* from = nullptr;
  int depth = 1;  // of the functions inside, counting itself
  bool bound_to_graph = false;
};

class Reader {
 public:
  explicit Reader(const BindCapture* bind) : bind_(bind) {}

  std::shared_ptr<GraphImpl> graph(const message::Document& document) {
    if (document.nodes_size() == 0 && document.functions_size() > 0) {
      raise(Code::InvalidArgument, "[Graph] the bytes hold a function, not a graph");
    }
    read_functions(document);
    return nodes(document.nodes(), NodesOf::Graph).graph;
  }

  std::shared_ptr<const GraphFunction> function(const message::Document& document) {
    if (document.nodes_size() > 0 || document.functions_size() == 0) {
      raise(Code::InvalidArgument, "[Graph] the bytes hold a graph, not a function");
    }
    read_functions(document);
    FunctionInProgress& last = functions_.at(document.functions().rbegin()->name());
    const auto captures = last.from->captures_size();
    for (int i = 0; i < captures; ++i) {
      if (last.from->captures(i).has_outer()) bind(last, i, CaptureInfo::Kind::Symbol);
    }
    return last.made;
  }

 private:
  struct Nodes {
    std::shared_ptr<GraphImpl> graph;
    int depth = 0;  // of the functions that the nodes use
  };

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
      FunctionInProgress made{.made = std::make_shared<GraphFunction>(), .from = &from};
      at_function(from, [&] { read(from, made); });
      for (int i = 0; i < from.captures_size(); ++i) {
        if (!from.captures(i).has_outer()) bind(made, i, CaptureInfo::Kind::Variable);
      }
      functions_.emplace(from.name(), std::move(made));
    }
  }

  void read(const message::Function& from, FunctionInProgress& made) {
    if (from.name().empty() || functions_.contains(from.name())) {
      raise(Code::InvalidArgument, "it has no name, or one that another function has");
    }
    const Nodes body = nodes(from.nodes(), NodesOf::Function);
    made.depth = body.depth + 1;
    if (made.depth > kDeepestNesting) {
      raise(Code::InvalidArgument, "functions are nested more than {} deep", kDeepestNesting);
    }
    made.made->name = from.name();
    read_arguments(from, *body.graph, *made.made);
    for (const std::string& result : from.results()) {
      made.made->results.push_back(read_endpoint(*body.graph, result));
    }
    for (const std::string& effect : from.effects()) {
      const int node = body.graph->find(effect);
      if (node < 0) raise(Code::InvalidArgument, "there is no node {}", quoted(effect));
      made.made->effects.push_back(node);
    }
    check_captures(from, *body.graph, *made.made);
    body.graph->finalize();
    made.made->body = body.graph;
  }

  static void read_arguments(const message::Function& from, const GraphImpl& graph,
                             GraphFunction& made) {
    std::set<Endpoint> known;
    for (const std::string& argument : from.arguments()) {
      made.arguments.push_back(read_endpoint(graph, argument));
      const Endpoint added = made.arguments.back();
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

  static void check_captures(const message::Function& from, const GraphImpl& graph,
                             GraphFunction& made) {
    const auto count = static_cast<size_t>(from.captures_size());
    if (count > made.arguments.size()) {
      raise(Code::InvalidArgument, "it captures {} tensors, but has {} arguments", count,
            made.arguments.size());
    }
    made.captured.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const message::Capture& capture = from.captures(static_cast<int>(i));
      const Endpoint argument = made.arguments[made.num_own_arguments() + i];
      const DType dtype = graph.node(argument.node).outputs[0].dtype;
      const Spec spec = read_spec(capture.spec());
      const bool fits = capture.has_outer() ? dtype == spec.dtype : dtype == kResource;
      if (capture.from_case() == message::Capture::FROM_NOT_SET || !fits) {
        raise(Code::InvalidArgument, "capture {} does not fit its argument, which is {}", i,
              to_string(dtype));
      }
    }
  }

  // Asks whoever reads the function for something that did not travel.
  void bind(FunctionInProgress& function, int index, CaptureInfo::Kind kind) {
    const message::Capture& capture = function.from->captures(index);
    const bool variable = kind == CaptureInfo::Kind::Variable;
    const CaptureInfo info{.function = function.made->name,
                           .kind = kind,
                           .name = variable ? capture.variable() : capture.outer(),
                           .spec = read_spec(capture.spec())};
    if (bind_ == nullptr || !*bind_) {
      raise(Code::FailedPrecondition,
            "[Graph] function {} uses {} {}, which did not travel with it", quoted(info.function),
            variable ? "variable" : "tensor", quoted(info.name));
    }
    const Tensor bound = (*bind_)(info);
    const bool fits = bound.defined() && (variable ? bound.dtype() == kResource
                                                   : bound.dtype() == info.spec.dtype &&
                                                         bound.shape().is_compatible_with(
                                                             info.spec.shape));
    if (!fits) {
      raise(Code::FailedPrecondition, "[Graph] what was given for {} {} of function {} is {}",
            variable ? "variable" : "tensor", quoted(info.name), quoted(info.function),
            bound.defined() ? fmt::format("{} {}", to_string(bound.dtype()),
                                          bound.shape().to_string())
                            : "nothing");
    }
    function.made->captured[static_cast<size_t>(index)] = bound;
  }

  Nodes nodes(const google::protobuf::RepeatedPtrField<message::Node>& from, NodesOf kind) {
    Nodes made;
    std::set<FunctionInProgress*> used;
    made.graph = read_nodes(from, kind, [&](const std::string& name) {
      const auto found = functions_.find(name);
      if (found == functions_.end()) {
        raise(Code::InvalidArgument, "there is no function {} before it", quoted(name));
      }
      made.depth = std::max(made.depth, found->second.depth);
      used.insert(&found->second);
      return found->second.made;
    });
    for (FunctionInProgress* function : used) bind_to_graph(*function, *made.graph);
    return made;
  }

  // Gives a function what it captured of the graph whose node holds it.
  static void bind_to_graph(FunctionInProgress& function, const GraphImpl& graph) {
    if (std::exchange(function.bound_to_graph, true)) return;
    at_function(*function.from, [&] {
      for (int i = 0; i < function.from->captures_size(); ++i) {
        const message::Capture& capture = function.from->captures(i);
        if (!capture.has_outer()) continue;
        const Tensor symbol = graph.symbol(read_endpoint(graph, capture.outer()));
        const Spec spec = read_spec(capture.spec());
        if (symbol.dtype() != spec.dtype || !symbol.shape().is_compatible_with(spec.shape)) {
          raise(Code::InvalidArgument, "it captures {}, which is {} {}", quoted(capture.outer()),
                to_string(symbol.dtype()), symbol.shape().to_string());
        }
        function.made->captured[static_cast<size_t>(i)] = symbol;
      }
    });
  }

  const BindCapture* bind_;
  std::map<std::string, FunctionInProgress> functions_;
};

}  // namespace

std::shared_ptr<GraphImpl> deserialize_graph(std::string_view bytes) {
  const message::Document document = parse(bytes);
  return Reader(nullptr).graph(document);
}

std::shared_ptr<const GraphFunction> deserialize_function(std::string_view bytes,
                                                          const BindCapture& bind) {
  const message::Document document = parse(bytes);
  return Reader(&bind).function(document);
}

}  // namespace internal

Graph Graph::deserialize(std::string_view bytes) {
  return internal::GraphAccess::make(internal::deserialize_graph(bytes));
}

}  // namespace cohort
