#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace cohort::internal {

enum class LogLevel : uint8_t { Debug, Info, Warning, Error, Off };

// What happens inside the library, for people, on stderr: one line per message with time, level
// letter and thread name. Warnings and errors only, unless the variable COHORT_LOG names another
// level: debug, info, warning, error or off. Never throws; any thread may log.
//
// A newline inside a message is written as \n, so that a line is always a message.
void set_log_level(LogLevel level);
// Sets the level that `name` names; another name is a warning in the log and changes nothing.
void set_log_level(std::string_view name);
bool log_enabled(LogLevel level);

// Formats and writes, whatever the level is.
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

}  // namespace cohort::internal
