#pragma once

#include <atomic>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/once_flag.h"
#include "graph/graph_impl.h"

namespace cohort::internal {

// The graph of a function's body while it is traced. What the body uses from outside (resources
// such as variables, symbols of the graph around it) becomes a further argument; values become
// constants. Ops with effects are put in the order in which the C++ code called them: reads of one
// resource between the writes around them, and what has effects beyond resources one after the
// other.
class FunctionGraph : public GraphImpl {
 public:
  Tensor add_argument(DType dtype, const Shape& shape);
  Tensor import(const Tensor& tensor) override;
  bool makes_variables() const override { return false; }

  // What was captured, and the argument that stands for it.
  const std::vector<Tensor>& captured() const { return captured_; }
  const std::vector<NodeOutput>& capture_arguments() const { return capture_arguments_; }
  // Nodes that must run although nobody may use what they return.
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

  // What the runtime compiled the body into, made once when first asked for.
  std::shared_ptr<const void> compiled(
      const std::function<std::shared_ptr<const void>()>& compile) const {
    compile_once_.call([&] { compiled_ = compile(); });
    return compiled_;
  }

  // How many calls asked which one they are: see RunNumber.
  std::atomic<uint64_t>& calls() const { return calls_; }

 private:
  mutable std::atomic<uint64_t> calls_{0};
  mutable OnceFlag compile_once_;
  mutable std::shared_ptr<const void> compiled_;
};

// Runs `body` with one symbol per spec and keeps what it did. The results must be tensors of the
// body or concrete.
using FunctionBody = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::shared_ptr<const GraphFunction> trace(std::string name, std::span<const Spec> arguments,
                                           const FunctionBody& body);

// Calls the ops of the body one by one, on `inputs` (the caller's arguments; captures are added):
// at once, into the graph being built, onto the active tape, as any op call. Calls with different
// numbers draw different random numbers.
std::vector<Tensor> call_inline(const GraphFunction& function, std::span<const Tensor> inputs,
                                uint64_t number = 0);

// Whether an op of the graph, or of a function that the graph calls, has the trait.
bool has_trait(const GraphImpl& graph, Trait trait);

}  // namespace cohort::internal
