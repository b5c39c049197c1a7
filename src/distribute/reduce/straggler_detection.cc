#include "distribute/reduce/straggler_detection.h"

#include <algorithm>
#include <numeric>

namespace cohort::internal {
namespace {

void add_times(std::vector<double>& sums, const std::vector<float>& values) {
  sums.resize(values.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(values[i]);
}

}  // namespace

std::optional<SlowWorkerWatch::Finding> SlowWorkerWatch::add(const BusyTimes& busy) {
  add_times(sums_, busy.total);
  add_times(input_sums_, busy.input);
  if (++steps_ < next_ || sums_.size() < 2) return std::nullopt;
  const auto slowest = std::max_element(sums_.begin(), sums_.end());
  const double own = *slowest / static_cast<double>(steps_);
  const double rest = std::accumulate(sums_.begin(), sums_.end(), 0.0) - *slowest;
  const double others = rest / static_cast<double>(steps_) / static_cast<double>(sums_.size() - 1);
  const auto worker = static_cast<size_t>(slowest - sums_.begin());
  const double input = input_sums_[worker] / static_cast<double>(steps_);
  std::fill(sums_.begin(), sums_.end(), 0);
  std::fill(input_sums_.begin(), input_sums_.end(), 0);
  steps_ = 0;
  if (own < others * kSlower || own - others < kLeastGap) {
    next_ = kSteps;
    return std::nullopt;
  }
  next_ *= 2;
  return Finding{worker, own, input, others};
}

}  // namespace cohort::internal
