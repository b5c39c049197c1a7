#include "optim/update_path.h"

#include <algorithm>
#include <atomic>

#include "base/collective_purpose.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/timeline.h"
#include "cohort/graph.h"
#include "cohort/internal/external_updates.h"
#include "ops/dispatch.h"
#include "ops/variable_ops.h"
#include "optim/optimizer.h"

namespace cohort::internal {
namespace {

std::atomic<UpdatePathFinder> path_finder = nullptr;

std::atomic<const ShardedVariableHooks*> sharded_variable_hooks = nullptr;

VariableOptions update_count_options(const std::string& prefix = "") {
  return {.name = prefix + "iterations",
          .trainable = false,
          .aggregation = VariableAggregation::OnlyFirstReplica};
}

}  // namespace

std::unique_ptr<UpdatePath> find_update_path(const std::vector<Variable>& variables) {
  const UpdatePathFinder finder = path_finder.load(std::memory_order_acquire);
  return finder != nullptr ? finder(variables) : nullptr;
}

void set_update_path_finder(UpdatePathFinder finder) {
  path_finder.store(finder, std::memory_order_release);
}

std::optional<VariableParts> expand_variables(const Gradients& gradients,
                                              const std::vector<Variable>& variables) {
  const ShardedVariableHooks* hooks = sharded_variable_hooks.load(std::memory_order_acquire);
  if (hooks == nullptr) return std::nullopt;
  return hooks->expand(gradients, variables);
}

std::vector<Variable> parts_of_variable(const Variable& variable) {
  const std::optional<VariableParts> parts = expand_variables({Gradient()}, {variable});
  return parts ? parts->variables : std::vector<Variable>();
}

Variable join_variables(const std::vector<Variable>& parts, const std::string& name) {
  const ShardedVariableHooks* hooks = sharded_variable_hooks.load(std::memory_order_acquire);
  if (hooks != nullptr) return hooks->join(parts, name);
  raise(Code::FailedPrecondition, "[Variable] '{}' has no parts", name);
}

void set_sharded_variable_hooks(const ShardedVariableHooks& hooks) {
  sharded_variable_hooks.store(&hooks, std::memory_order_release);
}

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
