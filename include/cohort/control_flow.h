#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cohort/site.h"
#include "cohort/tensor.h"

// Branches and loops on values that are not known while a graph is being built. Outside graphs
// they are what C++'s own are. All are differentiable.

namespace cohort {

using Branch = std::function<std::vector<Tensor>()>;

// What then_branch() returns when `predicate`, a bool scalar, holds, else what else_branch() does.
// In a graph both are traced and only one runs; they must return equally many tensors of the same
// dtypes (InvalidArgument).
std::vector<Tensor> cond(const Tensor& predicate, const Branch& then_branch,
                         const Branch& else_branch, Site site = Site::here());
// The same for branches that return one tensor.
template <typename Then, typename Else>
requires std::is_invocable_r_v<Tensor, Then> && std::is_invocable_r_v<Tensor, Else> Tensor
cond(const Tensor& predicate, const Then& then_branch, const Else& else_branch,
     Site site = Site::here()) {
  return cond(predicate, Branch([&] { return std::vector<Tensor>{then_branch()}; }),
              Branch([&] { return std::vector<Tensor>{else_branch()}; }), site)[0];
}

using LoopCondition = std::function<Tensor(std::span<const Tensor>)>;
using LoopBody = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

struct WhileOptions {
  int64_t maximum_iterations = -1;  // -1 = as long as the condition holds
};

// state = initial; while (condition(state)) state = body(state); returns the state. The body keeps
// number, dtypes and shapes of the tensors (InvalidArgument); give the initial ones unknown sizes,
// with placeholder_with_default, where they change. Its gradient keeps the states of all
// iterations.
std::vector<Tensor> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Tensor>& initial, const WhileOptions& options = {},
                               Site site = Site::here());

}  // namespace cohort
