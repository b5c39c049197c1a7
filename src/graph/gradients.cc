#include "autodiff/backward.h"
#include "base/raise.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "graph/graph_impl.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {
namespace {

// Every read of the variable that the graph has so far.
std::vector<Tensor> reads_of(const std::vector<OpCall>& calls, const Variable& variable) {
  const Tensor& handle = VariableAccess::impl(variable)->handle().handle;
  std::vector<Tensor> reads;
  for (const OpCall& call : calls) {
    if (call.op->name == "ReadVariable" &&
        TensorAccess::id(call.inputs[0]) == TensorAccess::id(handle)) {
      reads.push_back(call.outputs[0]);
    }
  }
  return reads;
}

std::vector<Tensor> seeds_for(const std::vector<Tensor>& ys, const GradientOptions& options) {
  if (!options.output_gradients.empty() && options.output_gradients.size() != ys.size()) {
    raise(Code::InvalidArgument, "[Gradients] {} output gradients for {} targets",
          options.output_gradients.size(), ys.size());
  }
  if (!options.output_gradients.empty()) return options.output_gradients;
  std::vector<Tensor> seeds;
  for (const Tensor& y : ys) seeds.push_back(ones_like(y));
  return seeds;
}

// One gradient per group of tensors: the sum over the group.
Gradients group_gradients(const std::vector<Tensor>& ys,
                          const std::vector<std::vector<Tensor>>& groups,
                          const GradientOptions& options) {
  if (ys.empty()) raise(Code::InvalidArgument, "[Gradients] no target was given");
  const std::shared_ptr<GraphImpl> graph = graph_of(ys[0]);
  std::vector<Tensor> flat;
  for (const auto& group : groups) flat.insert(flat.end(), group.begin(), group.end());
  std::vector<OpCall> calls = graph->calls();
  const NameScope names("gradients");
  const std::vector<Tensor> seeds = seeds_for(ys, options);
  const Gradients all = backward(std::move(calls), ys, seeds, flat);
  Gradients results;
  size_t next = 0;
  for (const auto& group : groups) {
    Gradient sum;
    for (size_t i = 0; i < group.size(); ++i) sum = add_gradients(sum, all[next++]);
    if (!sum.defined() && options.unconnected == Unconnected::Zero && !group.empty()) {
      sum = zeros_like(group[0]);
    }
    results.push_back(sum);
  }
  return results;
}

}  // namespace
}  // namespace internal

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                    const GradientOptions& options) {
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& x : xs) groups.push_back({x});
  return internal::group_gradients(ys, groups, options);
}

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Variable>& xs,
                    const GradientOptions& options) {
  if (ys.empty()) internal::raise(Code::InvalidArgument, "[Gradients] no target was given");
  const std::vector<internal::OpCall> calls = internal::graph_of(ys[0])->calls();
  std::vector<std::vector<Tensor>> groups;
  for (const Variable& x : xs) groups.push_back(internal::reads_of(calls, x));
  return internal::group_gradients(ys, groups, options);
}

}  // namespace cohort
