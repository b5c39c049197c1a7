#pragma once

#include <memory>
#include <vector>

namespace cohort::internal {

// Puts the calls of traced functions that write the same state into one order. Thread-safe.
class EffectOrder {
 public:
  virtual ~EffectOrder() = default;
  // Waits until this thread's call may write, or throws FailedPrecondition where others would see
  // another order. The call's turn lasts as long as what is returned. `may_wait`: the call may wait
  // for what another thread does, as for an element of a dataset.
  virtual std::shared_ptr<void> enter(bool may_wait) = 0;
};

using EffectOrders = std::vector<std::shared_ptr<EffectOrder>>;

}  // namespace cohort::internal
