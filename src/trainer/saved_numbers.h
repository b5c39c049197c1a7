#pragma once

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "base/raise.h"

namespace cohort::internal {

// Numbers that a callback keeps, as text without loss: "0.25 3".
inline std::string save_numbers(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += fmt::format("{} ", number);
  return text;
}

inline std::vector<double> restore_numbers(std::string_view callback, const std::string& saved,
                                           size_t count) {
  std::vector<double> numbers;
  const char* at = saved.data();
  const char* end = at + saved.size();
  while (at < end && numbers.size() < count) {
    const auto [next, failed] = std::from_chars(at, end, numbers.emplace_back());
    if (failed != std::errc()) break;
    at = next + 1;
  }
  if (numbers.size() == count && at == end) return numbers;
  raise(Code::DataLoss,
        "[{}] its saved state '{}' is not of this callback; are the callbacks of "
        "the backup in another order?",
        callback, saved);
}

}  // namespace cohort::internal
