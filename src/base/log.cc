#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "base/text.h"
#include "base/thread.h"
#include "cohort/internal/warn.h"

namespace cohort::internal {
namespace {

// By LogLevel.
constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> kLevels = {
    {{"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warning", spdlog::level::warn},
     {"error", spdlog::level::err},
     {"off", spdlog::level::off}}};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  return kLevels[static_cast<size_t>(level)].second;
}

void choose_level(spdlog::logger& logger, std::string_view name);

// Never destroyed, so that code may log until the end of the process.
spdlog::logger& logger() {
  static spdlog::logger& only = *[] {
    auto* made = new spdlog::logger("cohort", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %L %v");
    made->set_level(spdlog::level::warn);
    if (const char* level = std::getenv("COHORT_LOG")) choose_level(*made, level);
    return made;
  }();
  return only;
}

std::string to_line(std::string_view text) {
  return fmt::format("[{}] {}", thread_name(), fmt::join(split(text, '\n'), "\\n"));
}

void choose_level(spdlog::logger& logger, std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (known == name) return logger.set_level(level);
  }
  logger.warn(
      to_line(fmt::format("COHORT_LOG is '{}', which is not a level; the levels are debug, info, "
                          "warning, error and off",
                          name)));
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }
void set_log_level(std::string_view name) { choose_level(logger(), name); }

bool log_enabled(LogLevel level) {
  return level != LogLevel::Off && logger().should_log(to_spdlog(level));
}

void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept {
  try {
    logger().log(to_spdlog(level), to_line(fmt::vformat(text, args)));
  } catch (...) {
    // Out of memory, or a broken formatter: the message is lost, the work goes on.
  }
}

void warn(const std::string& message) { log_warning("{}", message); }

bool RareLog::is_due() {
  using std::chrono::nanoseconds;
  constexpr nanoseconds kPause = std::chrono::seconds(10);
  const nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
  int64_t next = next_ns_.load();
  if (now.count() >= next && next_ns_.compare_exchange_strong(next, (now + kPause).count())) {
    return true;
  }
  ++left_out_;
  return false;
}

void RareLog::write(fmt::string_view text, fmt::format_args args) noexcept {
  if (!log_enabled(LogLevel::Warning)) return;
  const uint64_t left_out = left_out_.exchange(0);
  if (left_out == 0) return write_log(LogLevel::Warning, text, args);
  try {
    log_warning("{} ({} lines like this one were left out)", fmt::vformat(text, args), left_out);
  } catch (...) {
    // As in write_log.
  }
}

}  // namespace cohort::internal
