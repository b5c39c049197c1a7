#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// The graph of a function's body while the body is traced. Resources such as variables, and symbols
// of the graph around, become further arguments when the body uses them; values become constants.
// Ops with effects keep the order in which the C++ code called them. A read of a resource runs
// between the writes before and after it. Ops with effects beyond resources run one after the
// other.
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

// A traced body, ready to be run, inlined or sent elsewhere. Immutable.
class GraphFunction {
 public:
  std::string name;
  std::shared_ptr<const GraphImpl> body;
  std::vector<NodeOutput> arguments;  // the caller's, then one per captured tensor
  std::vector<NodeOutput> results;
  std::vector<int> effects;
  std::vector<Tensor> captured;

  size_t num_own_arguments() const { return arguments.size() - captured.size(); }

  // The compiled form of the body, which the runtime makes at the first request.
  std::shared_ptr<const void> compiled(
      const std::function<std::shared_ptr<const void>()>& compile) const {
    compile_once_.call([&] { compiled_ = compile(); });
    return compiled_;
  }

  // How many calls have asked for their number: see RunNumber.
  std::atomic<uint64_t>& calls() const { return calls_; }

 private:
  mutable std::atomic<uint64_t> calls_{0};
  mutable OnceFlag compile_once_;
  mutable std::shared_ptr<const void> compiled_;
};

// Runs `body` with one symbol per spec and returns the trace. The results of `body` must be tensors
// of the traced graph, or concrete.
using FunctionBody = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::shared_ptr<const GraphFunction> trace(std::string name, std::span<const Spec> arguments,
                                           const FunctionBody& body);

// Gives each node of the body but its arguments to `call`, in order and on the node's device, with
// the values of its inputs, and returns the results. `inputs` are the function's arguments, with or
// without the captures. Nodes for which `is_called` is false are left out.
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

// Runs a function whose captures are among `inputs`: by the plan of the run that the caller is part
// of, or op by op outside a run.
std::vector<Tensor> call_function(const GraphFunction& function, std::span<const Tensor> inputs,
                                  RunContext* run);

// What an op that calls functions returns. A tape tells tensors apart by identity: it would count
// the gradient twice for a result that is also an input or the value of a variable.
std::vector<Tensor> own_results(std::vector<Tensor> results);

// `function` with its captures as ordinary arguments after its own. A node that calls it has the
// captures among its inputs.
std::shared_ptr<const GraphFunction> closed(const GraphFunction& function);

// Throws InvalidArgument naming `op` unless there is one input of the right dtype per argument.
void require_arguments(std::string_view op, const GraphFunction& function,
                       std::span<const Tensor> inputs);

// The tensors of all parts, in order.
std::vector<Tensor> joined(std::initializer_list<std::span<const Tensor>> parts);
// The caller's arguments, then the captures of the function.
inline std::vector<Tensor> with_captures(const GraphFunction& function,
                                         std::span<const Tensor> arguments) {
  return joined({arguments, function.captured});
}

Specs specs_of(std::span<const Tensor> tensors);
// Dtype and shape of the arguments, captures included, and of the results.
inline Specs argument_specs(const GraphFunction& function) {
  return function.body->specs(function.arguments);
}
inline Specs result_specs(const GraphFunction& function) {
  return function.body->specs(function.results);
}

}  // namespace cohort::internal
