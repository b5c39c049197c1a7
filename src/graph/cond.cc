#include <algorithm>

#include "base/raise.h"
#include "cohort/ops.h"
#include "graph/gradients.h"
#include "ops/all_ops.h"
#include "ops/infer.h"

namespace cohort {
namespace internal {
namespace {

const FunctionPtr& branch(const Attrs& attrs, std::string_view name) {
  return attrs.get<FunctionPtr>(name);
}

size_t num_then_inputs(const Attrs& attrs) {
  return branch(attrs, "then_branch")->arguments.size();
}

// The dtypes and shapes of the results, as far as both branches agree.
Specs merged_results(const GraphFunction& a, const GraphFunction& b) {
  const Specs first = result_specs(a);
  const Specs second = result_specs(b);
  if (first.size() != second.size()) {
    raise(Code::InvalidArgument, "[Cond] one branch returns {} tensors, the other {}", first.size(),
          second.size());
  }
  Specs merged;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].dtype != second[i].dtype) {
      raise(Code::InvalidArgument, "[Cond] result {} is {} in one branch and {} in the other", i,
            to_string(first[i].dtype), to_string(second[i].dtype));
    }
    const Shape& x = first[i].shape;
    const Shape& y = second[i].shape;
    Shape shape = Shape::unknown();
    if (x.has_rank() && y.has_rank() && x.rank() == y.rank()) {
      shape = x;
      for (int axis = 0; axis < x.rank(); ++axis) {
        if (x[axis] != y[axis]) shape = shape.with(axis, Shape::kUnknownDim);
      }
    }
    merged.push_back({first[i].dtype, shape});
  }
  return merged;
}

void run_branch(Kernel& k) {
  const bool holds = k.inputs[0].to<bool>();
  const FunctionPtr& chosen = branch(k.attrs, holds ? "then_branch" : "else_branch");
  const size_t first = holds ? 1 : 1 + num_then_inputs(k.attrs);
  const std::vector<Tensor> results =
      own_results(call_function(*chosen, k.inputs.subspan(first, chosen->arguments.size()), k.run));
  std::copy(results.begin(), results.end(), k.outputs.begin());
}

std::vector<Tensor> apply_cond(const Tensor& predicate, const FunctionPtr& then_branch,
                               const FunctionPtr& else_branch, std::span<const Tensor> then_inputs,
                               std::span<const Tensor> else_inputs, Site site) {
  return apply_many(kCond, joined({{&predicate, 1}, then_inputs, else_inputs}),
                    {{"then_branch", then_branch}, {"else_branch", else_branch}}, site);
}

// A branch that returns the gradients of its own inputs, and zeros for those of the other branch,
// so that both branches return the same. The arguments of the other branch come after its own and
// the gradients.
FunctionPtr branch_gradient(const GraphFunction& own, const GraphFunction& other, bool own_first) {
  const FunctionPtr gradient = gradient_of(own);
  Specs arguments = argument_specs(*gradient);
  const size_t num_own = arguments.size();
  const Specs others = argument_specs(other);
  const Specs slopes = gradient_specs(other);
  arguments.insert(arguments.end(), others.begin(), others.end());
  return without_effects(*trace(gradient->name, arguments, [&](std::span<const Tensor> given) {
    const std::vector<Tensor> mine = call_inline(*gradient, given.first(num_own));
    std::vector<Tensor> theirs;
    for (const size_t i : floating(slopes)) {
      theirs.push_back(zero_gradient(slopes[i], given[num_own + i]));
    }
    return own_first ? joined({mine, theirs}) : joined({theirs, mine});
  }));
}

Gradients cond_gradient(const OpCall& call, std::span<const Tensor> output_gradients) {
  const GraphFunction& then_branch = *branch(call.attrs, "then_branch");
  const GraphFunction& else_branch = *branch(call.attrs, "else_branch");
  const std::span<const Tensor> inputs(call.inputs);
  const auto then_inputs = inputs.subspan(1, then_branch.arguments.size());
  const auto else_inputs = inputs.subspan(1 + then_inputs.size());
  std::vector<Tensor> seeds;
  for (const size_t i : floating(result_specs(then_branch))) seeds.push_back(output_gradients[i]);
  const Specs then_specs = gradient_specs(then_branch);
  const Specs else_specs = gradient_specs(else_branch);
  const std::vector<Tensor> flat = apply_cond(
      inputs[0], branch_gradient(then_branch, else_branch, true),
      branch_gradient(else_branch, then_branch, false), joined({then_inputs, seeds, else_inputs}),
      joined({else_inputs, seeds, then_inputs}), {});
  Gradients gradients(call.inputs.size());
  size_t next = 0;
  for (const size_t i : floating(then_specs)) gradients[1 + i] = flat[next++];
  for (const size_t i : floating(else_specs)) gradients[1 + then_inputs.size() + i] = flat[next++];
  return gradients;
}

}  // namespace

extern constexpr OpDef kCond{
    .name = "Cond",
    .inputs = {1, kAnyNumber},
    .dtypes = kAnyType | kResourceType,
    .attrs = {{"then_branch", AttrKind::Function}, {"else_branch", AttrKind::Function}},
    .infer = [](const OpInputs& inputs) -> Specs {
      if (inputs.dtype(0) != kBool || !inputs.shape(0).is_compatible_with(Shape{})) {
        raise(Code::InvalidArgument, "[Cond] the predicate must be one bool, got {} of shape {}",
              to_string(inputs.dtype(0)), inputs.shape(0).to_string());
      }
      const FunctionPtr& then_branch = branch(inputs.attrs, "then_branch");
      const size_t end = std::min(inputs.size(), 1 + then_branch->arguments.size());
      require_arguments(inputs.op, *then_branch, inputs.tensors.subspan(1, end - 1));
      require_arguments(inputs.op, *branch(inputs.attrs, "else_branch"),
                        inputs.tensors.subspan(end));
      return merged_results(*then_branch, *branch(inputs.attrs, "else_branch"));
    },
    .compute = run_branch,
    .gradient = cond_gradient,
    .traits = Trait::HasEffect,  // a branch may have effects
};

}  // namespace internal

std::vector<Tensor> cond(const Tensor& predicate, const Branch& then_branch,
                         const Branch& else_branch, Site site) {
  if (!predicate.is_symbolic()) return predicate.to<bool>() ? then_branch() : else_branch();
  const auto trace_branch = [](std::string name, const Branch& body) {
    return internal::trace(std::move(name), {}, [&](std::span<const Tensor>) { return body(); });
  };
  const auto first = trace_branch("then", then_branch);
  const auto second = trace_branch("else", else_branch);
  return internal::apply_cond(predicate, internal::closed(*first), internal::closed(*second),
                              first->captured, second->captured, site);
}

}  // namespace cohort
