#include "cohort/internal/external_updates.h"

#include "base/collective_purpose.h"
#include "base/timeline.h"
#include "ops/dispatch.h"
#include "optim/optimizer.h"
#include "optim/update_path.h"

namespace cohort::internal {

struct ExternalUpdates::State {
  std::mutex mutex = {};  // guards the moving of `iterations`
  Variable iterations = make_update_count();
  IdleVariables idle = {};

  void settle(const UpdatePath& path, const Variable& neighbour) {
    const std::lock_guard lock(mutex);
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
  const auto take = [&](std::span<const Gradients> terms, size_t) {
    const Gradients& sums = terms.front();
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
    take({&own, 1}, 0);
    return;
  }
  state_->settle(*path, variables[0]);
  path->apply(own, variables, {take, /*adds=*/false, state_->iterations});
}

Variable ExternalUpdates::iterations() const { return state_->iterations; }

}  // namespace cohort::internal
