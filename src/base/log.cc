#include "base/log.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "base/text.h"
#include "base/thread.h"
#include "cohort/internal/warn.h"

namespace cohort::internal {
namespace {

using Level = spdlog::level::level_enum;

// By LogLevel.
constexpr std::array<std::pair<std::string_view, Level>, 5> kLevels = {
    {{"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warning", spdlog::level::warn},
     {"error", spdlog::level::err},
     {"off", spdlog::level::off}}};

Level to_spdlog(LogLevel level) { return kLevels[static_cast<size_t>(level)].second; }

std::optional<Level> level_named(std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  return std::nullopt;
}

// Which lines are shown: those of a component at its level, and all others at the common level.
struct Choice {
  Level common = spdlog::level::warn;
  std::map<std::string, Level, std::less<>> of_components = {};

  Level lowest() const {
    Level found = common;
    for (const auto& [component, level] : of_components) found = std::min(found, level);
    return found;
  }
};

// The component of "[Trainer] goes on" is "Trainer".
std::string_view component_of(std::string_view message) {
  const size_t end = message.starts_with('[') ? message.find(']') : std::string_view::npos;
  return end == std::string_view::npos ? "" : message.substr(1, end - 1);
}

std::string to_line(std::string_view text) {
  return fmt::format("[{}] {}", thread_name(), fmt::join(split(text, '\n'), "\\n"));
}

class Output {
 public:
  Output() {
    logger_.set_pattern("%H:%M:%S.%e %L %v");
    choose(Choice{});
    if (const char* wanted = std::getenv("COHORT_LOG")) choose(wanted);
  }

  void choose(const Choice& choice) {
    const std::lock_guard lock(mutex_);
    choice_ = choice;
    logger_.set_level(choice.lowest());
  }

  // "info", or "warning,Trainer=debug,Collective=info". Parts that say nothing are left out.
  void choose(std::string_view text) {
    Choice choice;
    for (const std::string_view part : split(text, ',')) {
      const std::string_view word = trimmed(part);
      if (word.empty()) continue;
      const size_t equals = word.find('=');
      const std::optional<Level> level =
          level_named(equals == word.npos ? word : word.substr(equals + 1));
      if (!level || equals == 0) {
        logger_.warn(to_line(fmt::format(
            "[Log] COHORT_LOG has '{}', which is not a level; the levels are debug, info, warning, "
            "error and off. 'warning,Trainer=info' gives a component a level of its own",
            word)));
      } else if (equals == word.npos) {
        choice.common = *level;
      } else {
        choice.of_components[std::string(word.substr(0, equals))] = *level;
      }
    }
    choose(choice);
  }

  bool may_show(Level level) const { return logger_.should_log(level); }

  void write(Level level, std::string_view message) {
    if (shows(level, component_of(message))) logger_.log(level, to_line(message));
  }

 private:
  bool shows(Level level, std::string_view component) {
    const std::lock_guard lock(mutex_);
    const auto found = choice_.of_components.find(component);
    return level >= (found == choice_.of_components.end() ? choice_.common : found->second);
  }

  spdlog::logger logger_{"cohort", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  Mutex mutex_;
  Choice choice_;  // guarded by mutex_
};

// Never destroyed, so that code may log until the end of the process.
Output& output() {
  static Output& only = *new Output;
  return only;
}

}  // namespace

void set_log_level(LogLevel level) { output().choose(Choice{.common = to_spdlog(level)}); }
void set_log_level(std::string_view name) { output().choose(name); }

bool log_enabled(LogLevel level) {
  return level != LogLevel::Off && output().may_show(to_spdlog(level));
}

void write_log(LogLevel level, fmt::string_view text, fmt::format_args args) noexcept {
  try {
    output().write(to_spdlog(level), fmt::vformat(text, args));
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
