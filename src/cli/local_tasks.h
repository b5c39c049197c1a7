#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "cli/mailbox.h"
#include "cli/memory_group.h"
#include "cli/poller.h"
#include "cli/reaper.h"
#include "cli/task_host.h"

namespace cohort::cli {

// The tasks that run on this machine, as children of this process.
class LocalTasks : public TaskHost {
 public:
  // Crash records are written to `folder`; `preload` is the library that writes them, or empty. All
  // others outlive this.
  struct Options {
    std::string folder = {};
    std::string preload = {};
  };
  LocalTasks(Poller& poller, const Reaper& reaper, Options options, TaskEvents events);
  // Kills what still runs.
  ~LocalTasks() override;

  void start(const TaskStart& start) override;
  void signal(size_t task, int signal) override;
  void ask_place(size_t task) override;

  // Takes down those that have ended. Call it when SIGCHLD came.
  void reap();
  // Ends tasks that wait for themselves, and tells of those that wait for others. Call it about
  // once a second.
  void look();

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {
    Child child;
    TaskStart start;
    LineCutter output, errors;
    std::vector<std::string> last_lines;  // newest last
    Clock::time_point began = Clock::now();
    Clock::time_point locked_since = Clock::time_point::max();
    double deadlocked_seconds = 0;
    bool waited = false;                   // for another task, when it was looked at last
    internal::ProgressNote progress = {};  // as it was told last
  };

  std::string crash_file(const TaskStart& start) const;
  std::string activity_file(const TaskStart& start) const;
  std::string trace_file(const TaskStart& start) const;
  Environment with_crash_report(const TaskStart& start) const;
  // Lines of a stream of the task: the last ones are kept, all are told.
  LineCutter lines_of(size_t task, Stream stream);
  void read_from(int fd, LineCutter& lines);
  void read_rest(Running& running);
  Ending ending_of(const Running& running, int status, uint64_t peak_bytes);
  void forget(Running& running);
  void hand_over_timeline(const TaskStart& start);
  void check_deadlock(Running& running);
  void check_activity(size_t task, Running& running);

  Poller& poller_;
  const Reaper& reaper_;
  const Options options_;
  const TaskEvents events_;
  const MemoryGroup memory_;
  uint64_t memory_kills_;
  std::map<size_t, std::unique_ptr<Running>> running_;
  Mailbox places_;  // from these threads:
  std::vector<std::jthread> askers_;
};

}  // namespace cohort::cli
