#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>

#include "base/raise.h"

namespace cohort::internal {

// How long something may take. Empty: no limit.
using TimeLimit = std::optional<std::chrono::milliseconds>;

// Throws InvalidArgument, which names the option and the remedy, if the limit is not positive.
inline void check_time_limit(std::string_view operation, std::string_view option,
                             const TimeLimit& limit,
                             std::string_view remedy = "leave it empty for no limit") {
  if (!limit || limit->count() > 0) return;
  raise(Code::InvalidArgument, "[{}] {} must be positive, got {} ms; {}", operation, option,
        limit->count(), remedy);
}

// Returns the limit of an option that TensorFlow has, too: 0, which means no limit there, becomes
// empty. Throws InvalidArgument, which names the option and the remedy, if the limit is negative.
inline TimeLimit given_time_limit(std::string_view operation, std::string_view option,
                                  const TimeLimit& limit,
                                  std::string_view remedy = "leave it empty for no limit") {
  if (!limit || limit->count() > 0) return limit;
  if (limit->count() == 0) return std::nullopt;
  raise(Code::InvalidArgument, "[{}] {} must not be negative, got {} ms; {}", operation, option,
        limit->count(), remedy);
}

// The limit of a collective call: 0, which means no limit in TensorFlow, becomes a time that no
// program reaches.
inline std::optional<std::chrono::nanoseconds> endless_if_zero(
    const std::optional<std::chrono::nanoseconds>& limit) {
  return limit && limit->count() == 0 ? std::chrono::nanoseconds::max() : limit;
}

// The limit as requests and messages hold it: 0 if there is none, and at most a year, which is
// longer than any run, so that adding it to now does not overflow.
inline std::chrono::milliseconds request_limit(const TimeLimit& limit) {
  constexpr std::chrono::milliseconds kYear = std::chrono::hours(24 * 365);
  return limit ? std::min(*limit, kYear) : std::chrono::milliseconds(0);
}

}  // namespace cohort::internal
