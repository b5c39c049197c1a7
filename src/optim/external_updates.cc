// What the updates of the library's optimizers and those of other optimizers have in common.

#include "cohort/internal/external_updates.h"

#include <algorithm>

#include "base/collective_purpose.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/timeline.h"
#include "cohort/graph.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "optim/optimizer.h"

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

void settle_update_count(Variable& count, const UpdatePath& path, const Variable& neighbour) {
  if (path.owns(count)) return;
  const Graph::Scope untraced(nullptr);
  const Tensor updates = VariableAccess::impl(count)->value_across();
  count = path.make_beside(neighbour, {[updates] { return updates; }, update_count_options()});
}

void require_some_gradient(const Gradients& gradients) {
  if (std::ranges::any_of(gradients, &Gradient::defined)) return;
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

struct ExternalUpdates::State {
  Turn moving = {};  // of the thread that moves `iterations`, perhaps to another task
  Variable iterations = make_update_count();
  IdleVariables idle = {};

  void settle(const UpdatePath& path, const Variable& neighbour) {
    const std::lock_guard one_at_a_time(moving);
    settle_update_count(iterations, path, neighbour);
  }
};

ExternalUpdates::ExternalUpdates() : state_(std::make_unique<State>()) {}
ExternalUpdates::~ExternalUpdates() = default;
ExternalUpdates::ExternalUpdates(ExternalUpdates&&) noexcept = default;
ExternalUpdates& ExternalUpdates::operator=(ExternalUpdates&&) noexcept = default;

void ExternalUpdates::apply(const Gradients& own, const std::vector<Variable>& variables,
                            const std::function<void(const Gradients& sums)>& change) {
  const CollectivePurpose purpose("apply_gradients");
  optim::internal::check_all(own, variables);
  const RecordingPause pause;
  OptimizerSpan span(thread_dispatch().builder == nullptr);
  const auto take = [&](const Gradients& sums, size_t) {
    require_some_gradient(sums);
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!sums[i].defined()) state_->idle.name_once(variables[i]);
    }
    change(sums);
    const Tensor count = state_->iterations.assign_add(int64_t{1});
    if (span.is_kept()) span.set_number(count.to<int64_t>());
    return count;
  };
  const auto path = find_update_path(variables);
  if (path == nullptr) {
    take(own, 0);
    return;
  }
  state_->settle(*path, variables[0]);
  path->apply(own, variables, {take, state_->iterations});
}

Variable ExternalUpdates::iterations() const { return state_->iterations; }

}  // namespace cohort::internal
