#include "graph/gradients.h"

#include "autodiff/backward.h"
#include "base/raise.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "ops/all_ops.h"
#include "ops/variable_cell.h"

namespace cohort {
namespace internal {
namespace {

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

std::vector<OpCall> calls_before(const std::vector<Tensor>& ys) {
  if (ys.empty()) raise(Code::InvalidArgument, "[Gradients] no target was given");
  return graph_of(ys[0])->calls();
}

Gradients gradients_of(std::vector<OpCall> calls, const std::vector<Tensor>& ys,
                       const std::vector<std::vector<Tensor>>& groups,
                       const GradientOptions& options) {
  const NameScope names("gradients");
  Gradients results = group_gradients(std::move(calls), ys, seeds_for(ys, options), groups);
  if (options.unconnected != Unconnected::Zero) return results;
  for (size_t i = 0; i < results.size(); ++i) {
    // A handle has no size; whose it is has one.
    if (results[i].defined() || groups[i][0].dtype() == kResource) continue;
    results[i] = zeros_like(groups[i][0]);
  }
  return results;
}

}  // namespace

std::vector<Tensor> sources_of(const std::vector<OpCall>& calls, const Tensor& handle) {
  std::vector<Tensor> sources;
  for (const OpCall& call : calls) {
    if (call.op == &kReadVariable && TensorAccess::id(call.inputs[0]) == TensorAccess::id(handle)) {
      sources.push_back(call.outputs[0]);
    }
  }
  sources.push_back(handle);
  return sources;
}

Gradients group_gradients(std::vector<OpCall> calls, std::span<const Tensor> ys,
                          std::span<const Tensor> seeds,
                          const std::vector<std::vector<Tensor>>& groups) {
  std::vector<Tensor> flat;
  for (const auto& group : groups) flat.insert(flat.end(), group.begin(), group.end());
  const Gradients all = backward(std::move(calls), ys, seeds, flat);
  Gradients results;
  size_t next = 0;
  for (const auto& group : groups) {
    Gradient sum;
    for (size_t i = 0; i < group.size(); ++i) sum = add_gradients(sum, all[next++]);
    results.push_back(sum);
  }
  return results;
}

}  // namespace internal

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                    const GradientOptions& options) {
  std::vector<std::vector<Tensor>> groups;
  for (const Tensor& x : xs) groups.push_back({x});
  return internal::gradients_of(internal::calls_before(ys), ys, groups, options);
}

Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Variable>& xs,
                    const GradientOptions& options) {
  std::vector<internal::OpCall> calls = internal::calls_before(ys);
  std::vector<std::vector<Tensor>> groups;
  for (const Variable& x : xs) {
    groups.push_back(
        internal::sources_of(calls, internal::VariableAccess::impl(x)->handle().handle));
  }
  Gradients results = internal::gradients_of(std::move(calls), ys, groups, options);
  if (options.unconnected != Unconnected::Zero) return results;
  const Graph::Scope building(internal::graph_of(ys[0]));
  for (size_t i = 0; i < xs.size(); ++i) {
    const Shape shape = xs[i].shape();
    if (!results[i].defined() && shape.is_fully_known()) results[i] = zeros(shape, xs[i].dtype());
  }
  return results;
}

}  // namespace cohort
