#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "graph/graph_impl.h"
#include "graph/tensor_lists.h"

namespace cohort::internal {

// FunctionGraph is the graph of a function's body during the trace. A resource such as a variable,
// or a symbol of the outer graph, becomes a further argument when the body uses it; a value becomes
// a constant. Ops with effects keep the order in which the C++ code called them. A read of a
// resource runs between the writes before and after it. Ops with effects beyond resources run one
// after the other.
class FunctionGraph : public GraphImpl {
 public:
  Tensor add_argument(DType dtype, const Shape& shape);
  Tensor import(const Tensor& tensor) override;
  bool makes_variables() const override { return false; }

  // The captured tensors, each with the argument that stands for it.
  const std::vector<Tensor>& captured() const { return captured_; }
  const std::vector<NodeOutput>& capture_arguments() const { return capture_arguments_; }
  // Nodes that must run even if no node uses what they return.
  const std::vector<int>& effects() const { return effects_; }

 protected:
  std::vector<int> effects_before(const OpDef& op, std::span<const NodeOutput> inputs) override;
  void note_effect(int node) override;

 private:
  struct ResourceUse {
    int last_write = -1;
    std::vector<int> reads_since;
  };

  std::vector<Tensor> captured_;
  std::vector<NodeOutput> capture_arguments_;
  std::vector<int> effects_;
  std::map<NodeOutput, ResourceUse> uses_;
  int last_unbound_effect_ = -1;
};

// A traced body, which can be run, inlined or sent to another task. Immutable.
class GraphFunction {
 public:
  std::string name;
  std::shared_ptr<const GraphImpl> body;
  std::vector<NodeOutput> arguments;  // those of the caller, then one per captured tensor
  std::vector<NodeOutput> results;
  std::vector<int> effects;
  std::vector<Tensor> captured;

  size_t num_own_arguments() const { return arguments.size() - captured.size(); }

  // The compiled form of the body. The runtime creates it at the first request.
  std::shared_ptr<const void> compiled(
      const std::function<std::shared_ptr<const void>()>& compile) const {
    compile_once_.call([&] { compiled_ = compile(); });
    return compiled_;
  }

  // How many calls have taken a number: see RunNumber.
  std::atomic<uint64_t>& calls() const { return calls_; }

 private:
  mutable std::atomic<uint64_t> calls_{0};
  mutable OnceFlag compile_once_;
  mutable std::shared_ptr<const void> compiled_;
};

// Runs `body` with one symbol per spec and returns the trace. The results of `body` must be tensors
// of the traced graph, or concrete.
using FunctionBody = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
FunctionPtr trace(std::string name, std::span<const Spec> arguments, const FunctionBody& body);

// Calls `call` for each node of the body except its arguments, in order and on the node's device,
// with the values of its inputs. Returns the results. `inputs` are the arguments of the function,
// with or without the captures. Nodes for which `is_called` is false are left out.
using CallNode = std::function<std::vector<Tensor>(const Node&, std::span<const Tensor> inputs)>;
std::vector<Tensor> call_body(const GraphFunction& function, std::span<const Tensor> inputs,
                              const CallNode& call,
                              const std::function<bool(int id)>& is_called = {});

// Calls the ops of the body one by one, on `inputs` (the caller's arguments; captures are added).
// As with any op call, the ops run at once, or join the graph being built, and the active tape
// records them. Calls with different numbers draw different random numbers.
std::vector<Tensor> call_inline(const GraphFunction& function, std::span<const Tensor> inputs,
                                uint64_t number = 0);

// Whether `which` holds for a node of the graph, or of a function that the graph calls.
bool any_node(const GraphImpl& graph, const std::function<bool(const Node&)>& which);
inline bool has_trait(const GraphImpl& graph, Trait trait) {
  return any_node(graph, [&](const Node& node) { return node.op->traits.has(trait); });
}

// Runs a function whose captures are among `inputs`: by the plan of the run that the caller belongs
// to, or op by op outside a run.
std::vector<Tensor> call_function(const GraphFunction& function, std::span<const Tensor> inputs,
                                  RunContext* run);

// The results of an op that calls functions. A tape identifies a tensor by its object: it would
// count the gradient twice for a result that is also an input or the value of a variable.
std::vector<Tensor> own_results(std::vector<Tensor> results);

// Returns `function` with its captures as ordinary arguments after its own. A node that calls the
// result has the captures among its inputs.
FunctionPtr closed(const GraphFunction& function);

// The inputs of the node that are handles of state that the node changes, itself or in the
// functions that it calls. The node need not be in the graph yet.
std::set<NodeOutput> changed_by(const GraphImpl& graph, const Node& node);
// The same for all nodes of the graph.
std::set<NodeOutput> changed_in(const GraphImpl& body);
// Which arguments are handles of state that the function changes.
std::set<size_t> changed_arguments(const GraphFunction& function);

// Throws InvalidArgument naming `op` unless there is one input of the right dtype per argument.
void require_arguments(std::string_view op, const GraphFunction& function,
                       std::span<const Tensor> inputs);

// Returns the arguments of the caller, then the captures of the function.
inline std::vector<Tensor> with_captures(const GraphFunction& function,
                                         std::span<const Tensor> arguments) {
  return joined({arguments, function.captured});
}

// Dtype and shape of the arguments, captures included, and of the results.
inline Specs argument_specs(const GraphFunction& function) {
  return function.body->specs(function.arguments);
}
inline Specs result_specs(const GraphFunction& function) {
  return function.body->specs(function.results);
}

}  // namespace cohort::internal
