#pragma once

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "base/memory_limit.h"
#include "launch/child_process.h"
#include "launch/event_loop.h"
#include "launch/task_host.h"

namespace cohort::cli {

enum class CrashReports { None, Written };

// The tasks that run on this machine, as children of this process.
class LocalTasks : public TaskHost {
 public:
  // `poller` and `reaper` outlive this object. Tasks write their crash reports, activities and
  // timelines to the directory.
  LocalTasks(Poller& poller, const Reaper& reaper, std::string directory, CrashReports reports,
             TaskEvents events);
  // Kills the tasks that still run.
  ~LocalTasks() override;

  void start(const TaskStart& start) override;
  void signal(size_t task, int signal) override;
  void ask_place(size_t task) override;

  bool any_runs() const { return !running_.empty(); }
  // Reports the tasks that have ended. Call it after SIGCHLD.
  void reap();
  // Ends tasks that are deadlocked, and reports the long waits of tasks. Call it about once a
  // second, or more often for fresh progress.
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
    bool waited = false;                   // for another task, at the last look
    internal::ProgressNote progress = {};  // as it was reported last

    std::array<std::pair<int, LineCutter*>, 2> files() {
      return {{{child.output.get(), &output}, {child.errors.get(), &errors}}};
    }
  };

  // See task_file().
  std::string file_of(const TaskStart& start, const char* kind) const;
  Environment with_crash_report(const TaskStart& start) const;
  // Reports the lines of a stream of the task, and keeps the last lines.
  LineCutter lines_of(size_t task, Stream stream);
  void read_from(int fd, LineCutter& lines);
  void read_rest(Running& running);
  Ending ending_of(const Running& running, int status, uint64_t peak_bytes);
  void forget(Running& running);
  void report_timeline(const TaskStart& start);
  void check_deadlock(Running& running);
  void check_activity(size_t task, Running& running);

  Poller& poller_;
  const Reaper& reaper_;
  const std::string directory_;
  const std::string preload_;  // the library that writes crash reports; empty: none
  const TaskEvents events_;
  const internal::MemoryCgroup memory_;
  uint64_t memory_kills_;
  std::map<size_t, std::unique_ptr<Running>> running_;
  PostedCalls places_;  // from the threads below
  std::vector<std::jthread> askers_;
};

}  // namespace cohort::cli
