#include "train/update_count.h"

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/graph.h"
#include "ops/variable_ops.h"

namespace cohort::internal {
namespace {

VariableOptions update_count_options(const std::string& prefix = "") {
  return {.name = prefix + "iterations",
          .trainable = false,
          .aggregation = VariableAggregation::OnlyFirstReplica};
}

}  // namespace

Variable make_update_count(const std::string& prefix) {
  return Variable(int64_t{0}, update_count_options(prefix));
}

void settle_update_count(Variable& count, const UpdatePath& route, const Variable& neighbour) {
  if (route.owns(count)) return;
  const Graph::Scope untraced(nullptr);
  const Tensor updates = VariableAccess::impl(count)->value_across();
  count = route.make_beside(neighbour, {[updates] { return updates; }, update_count_options()});
}

void require_some_gradient(const Gradients& gradients) {
  if (std::any_of(gradients.begin(), gradients.end(),
                  [](const Gradient& gradient) { return gradient.defined(); })) {
    return;
  }
  raise(Code::InvalidArgument,
        "[Optimizer] none of the {} variables has a gradient; was the loss computed from them "
        "while the tape recorded?",
        gradients.size());
}

void IdleVariables::name_once(const Variable& variable) {
  const std::lock_guard lock(mutex_);
  if (!named_.insert(variable.name()).second) return;
  log_warning("[Optimizer] variable '{}' has no gradient and stays as it is", variable.name());
}

}  // namespace cohort::internal
