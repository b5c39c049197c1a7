#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/activity.h"
#include "launch/child_process.h"
#include "launch/process_state.h"
#include "launch/task_ending.h"
#include "launch/task_output.h"

namespace cohort::cli {

// A task as its machine must know it.
struct TaskStart {
  size_t task = 0;  // its number in the run
  std::string label = {};
  std::vector<std::string> command = {};
  Environment environment = {};
  std::string directory = {};
  std::string input = {};  // see ChildStart; is not sent to other machines
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;
  bool trace = false;  // whether the task writes its timeline
};

using LongWaits = std::vector<internal::ActivityWait>;

// What a machine reports about its tasks. Called by the thread that polls.
struct TaskEvents {
  std::function<void(size_t task, Stream stream, std::string_view line)> line;
  std::function<void(size_t task, const Ending& ending)> ended;
  // Called while the task has long waits, and once more, without waits, when they are over.
  std::function<void(size_t task, const LongWaits& waits)> waits = {};
  std::function<void(size_t task, const TaskPlace& place)> place = {};
  // Called when the progress of the training has changed.
  std::function<void(size_t task, const internal::ProgressNote& note)> progress = {};
  // Lines of the timeline of a task that writes one. Called before `ended`.
  std::function<void(size_t task, std::string_view lines)> timeline = {};
};

// A machine on which tasks run: this machine, or a machine that joined the run.
class TaskHost {
 public:
  virtual ~TaskHost() = default;
  // A program that cannot be started is reported as an ending.
  virtual void start(const TaskStart& start) = 0;
  // Signals the process group of the task, unless the task has ended.
  virtual void signal(size_t task, int signal) = 0;
  // Asks where the task is. The answer is an event; a task that has ended does not answer.
  virtual void ask_place(size_t task) = 0;
  // How much its steady clock is ahead of that of this machine.
  virtual std::chrono::nanoseconds clock_ahead() const { return {}; }
};

}  // namespace cohort::cli
