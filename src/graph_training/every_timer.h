#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "cohort/hooks.h"

namespace cohort::internal {

// EveryTimer decides whether the next action is due. The first action is always due.
class EveryTimer {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  EveryTimer(
      std::string_view hook, const Every& every,
      Now now = [] { return std::chrono::steady_clock::now(); });

  bool due(int64_t step) const;
  // Records an action at this step. Returns the time and steps since the last action.
  struct Elapsed {
    std::chrono::nanoseconds time{0};
    int64_t steps = 0;
  };
  std::optional<Elapsed> happened(int64_t step);
  std::optional<int64_t> last_step() const { return last_step_; }

 private:
  Every every_;
  Now now_;
  std::optional<int64_t> last_step_;
  std::chrono::steady_clock::time_point last_time_;
};

}  // namespace cohort::internal
