#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

namespace cohort::internal {

enum class LogLevel : uint8_t { Debug, Info, Warning, Error, Off };

// The log goes to stderr, one line per message with time, level letter and thread name. It shows
// warnings and errors, unless the variable COHORT_LOG names another level: debug, info, warning,
// error or off. Logging never throws; any thread may log.
//
// A newline inside a message is written as \n, so that each line is one message.
void set_log_level(LogLevel level);
// Sets the level that `name` names. An unknown name is a warning in the log and changes nothing.
void set_log_level(std::string_view name);
bool log_enabled(LogLevel level);

// Formats and writes the message, whatever the level is.
void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept;

template <typename... Args>
void log_at(LogLevel level, fmt::format_string<Args...> text, Args&&... args) noexcept {
  if (log_enabled(level)) write_log(level, text, fmt::make_format_args(args...));
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_at(LogLevel::Debug, text, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_at(LogLevel::Info, text, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_at(LogLevel::Warning, text, std::forward<Args>(args)...);
}
template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_at(LogLevel::Error, text, std::forward<Args>(args)...);
}

// For lines that strangers can cause as often as they like. Writes the first line, and then at most
// one line in ten seconds, which says how many were left out. Use one object for each kind of line.
// Thread-safe.
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
