#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>

namespace cohort::internal {

// For lines that strangers can cause as often as they like: writes the first, and then at most one
// in ten seconds, which says how many were left out. One object for each kind of line. Thread-safe.
class RareLog {
 public:
  template <typename... Args>
  void warning(fmt::format_string<Args...> text, Args&&... args) noexcept {
    if (is_due()) write(text, fmt::make_format_args(args...));
  }

 private:
  bool is_due();
  void write(fmt::string_view text, fmt::format_args args) noexcept;

  std::atomic<int64_t> next_ns_{0};
  std::atomic<uint64_t> left_out_{0};
};

}  // namespace cohort::internal
