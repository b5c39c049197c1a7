#include "base/raise.h"
#include "cohort/hooks.h"

namespace cohort::internal {
namespace {

const Every& checked(std::string_view hook, const Every& every) {
  if (every.steps.has_value() == every.secs.has_value()) {
    raise(Code::InvalidArgument, "[{}] exactly one of .steps and .secs must be given, got {}", hook,
          every.steps ? "both" : "none");
  }
  if (every.steps.value_or(1) > 0 && every.secs.value_or(0) >= 0) return every;
  raise(Code::InvalidArgument, "[{}] how often must be positive, got {}", hook,
        every.steps ? static_cast<double>(*every.steps) : *every.secs);
}

}  // namespace

EveryTimer::EveryTimer(std::string_view hook, const Every& every, Now now)
    : every_(checked(hook, every)), now_(std::move(now)) {}

bool EveryTimer::due(int64_t step) const {
  if (!last_step_) return true;
  if (step == *last_step_) return false;
  if (every_.steps) return step >= *last_step_ + *every_.steps;
  return std::chrono::duration<double>(now_() - last_time_).count() >= *every_.secs;
}

std::optional<EveryTimer::Elapsed> EveryTimer::happened(int64_t step) {
  const auto now = now_();
  std::optional<Elapsed> elapsed;
  if (last_step_) {
    elapsed = {.secs = std::chrono::duration<double>(now - last_time_).count(),
               .steps = step - *last_step_};
  }
  last_step_ = step;
  last_time_ = now;
  return elapsed;
}

}  // namespace cohort::internal
