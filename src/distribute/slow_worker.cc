#include "distribute/slow_worker.h"

#include <algorithm>
#include <numeric>

namespace cohort::internal {

std::optional<SlowWorkerWatch::Finding> SlowWorkerWatch::add(std::span<const float> busy_seconds) {
  sums_.resize(busy_seconds.size());
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(busy_seconds[i]);
  if (++steps_ < next_ || sums_.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(sums_.begin(), sums_.end());
  const double own = *slowest / static_cast<double>(steps_);
  const double rest = std::accumulate(sums_.begin(), sums_.end(), 0.0) - *slowest;
  const double others = rest / static_cast<double>(steps_) / static_cast<double>(sums_.size() - 1);
  const auto worker = static_cast<size_t>(slowest - sums_.begin());
  std::fill(sums_.begin(), sums_.end(), 0);
  steps_ = 0;
  if (own < others * kSlower || own - others < kLeastGap) {
    next_ = kSteps;
    return std::nullopt;
  }
  next_ *= 2;
  return Finding{worker, own, others};
}

}  // namespace cohort::internal
