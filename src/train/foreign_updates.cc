#include "cohort/internal/foreign_updates.h"

#include "base/purpose.h"
#include "base/timeline.h"
#include "ops/dispatch.h"
#include "train/optimizer.h"
#include "train/update_count.h"

namespace cohort::internal {

struct ForeignUpdates::State {
  std::mutex mutex = {};  // guards the moving of `iterations`
  Variable iterations = make_update_count();
  IdleVariables idle = {};

  void settle(const UpdatePath& route, const Variable& neighbour) {
    const std::lock_guard lock(mutex);
    settle_update_count(iterations, route, neighbour);
  }
};

ForeignUpdates::ForeignUpdates() : state_(std::make_unique<State>()) {}
ForeignUpdates::~ForeignUpdates() = default;
ForeignUpdates::ForeignUpdates(ForeignUpdates&&) noexcept = default;
ForeignUpdates& ForeignUpdates::operator=(ForeignUpdates&&) noexcept = default;

void ForeignUpdates::apply(const Gradients& own, const std::vector<Variable>& variables,
                           const std::function<void(const Gradients& sums)>& change) {
  const CollectivePurpose purpose("apply_gradients");
  optim::internal::check_all(own, variables);
  const RecordingPause pause;
  OptimizerSpan span(thread_dispatch().builder == nullptr);
  const auto take = [&](std::span<const Gradients> terms) {
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
  const auto route = find_update_route(variables);
  if (route == nullptr) {
    take({&own, 1});
    return;
  }
  state_->settle(*route, variables[0]);
  route->apply(own, variables, {take, /*adds=*/false, state_->iterations});
}

Variable ForeignUpdates::iterations() const { return state_->iterations; }

}  // namespace cohort::internal
