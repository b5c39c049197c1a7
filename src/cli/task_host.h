#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/activity.h"
#include "cli/child.h"
#include "cli/ending.h"
#include "cli/task_output.h"
#include "cli/task_place.h"

namespace cohort::cli {

// A task as its machine has to know it.
struct TaskStart {
  size_t task = 0;  // its number in the run
  std::string label = {};
  std::vector<std::string> command = {};
  Environment environment = {};
  std::string folder = {};
  std::string input = {};  // see ChildStart; stays on this machine
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;
  bool trace = false;  // it is to write its timeline
};

using LongWaits = std::vector<internal::ActivityWait>;

// What a machine tells about its tasks. Called by the thread that polls.
struct TaskEvents {
  std::function<void(size_t task, Stream stream, std::string_view line)> line;
  std::function<void(size_t task, const Ending& ending)> ended;
  // While a task has waited for others for long; once more, with nothing, when it does not any
  // more.
  std::function<void(size_t task, const LongWaits& waits)> waits = {};
  std::function<void(size_t task, const TaskPlace& place)> place = {};
  // How far the task's training is, when that has changed.
  std::function<void(size_t task, const internal::ProgressNote& note)> progress = {};
  // Lines of the timeline of a task that was to write one, before it is told that it has ended.
  std::function<void(size_t task, std::string_view lines)> timeline = {};
};

// A machine on which tasks run: this one, or another that joined.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  // A program that cannot be started is an ending.
  virtual void start(const TaskStart& start) = 0;
  // To the task and what it has started. Nothing when it has ended.
  virtual void signal(size_t task, int signal) = 0;
  // Where the task is. The answer is an event; there is none when it has ended.
  virtual void ask_place(size_t task) = 0;
  // By how much its steady clock is ahead of this machine's.
  virtual std::chrono::nanoseconds clock_ahead() const { return {}; }
};

}  // namespace cohort::cli
