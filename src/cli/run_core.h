#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/poller.h"
#include "cli/progress_view.h"
#include "cli/run.h"
#include "cli/signals.h"
#include "cli/stall_watch.h"
#include "cli/supervisor.h"
#include "cli/trace_file.h"

namespace cohort::cli {

// One line for the person in front of the launcher.
void say(const std::string& text);

// What every run does, wherever its tasks are: prints and keeps what they write, decides what
// happens when one ends, and reports. One thread.
class RunCore {
 public:
  // `options` and `poller` outlive it. The folder for logs is made: "logs" in the run's folder,
  // unless the options name another one.
  RunCore(const RunOptions& options, Poller& poller, const std::string& run_folder);

  // For the machines.
  TaskEvents events();
  // Runs the plan, each task on the machine of that place, until all have ended. `environment` is
  // added to what each task gets. `each_second` is called about that often; `child_ended` when a
  // child of this process did.
  struct Work {
    RunPlan plan = {};
    std::vector<TaskHost*> machines = {};
    std::function<Environment(const TaskId&)> environment = {};
    std::function<void()> each_second = {};
    std::function<void()> child_ended = {};
  };
  int run(const Work& work, Signals& signals);

 private:
  std::vector<SupervisedTask> supervised_tasks(const Work& work);
  void loop(const Work& work, Signals& signals);
  void on_signal(const Work& work, Signals& signals);
  void task_ended(size_t task, const Ending& ending);
  void place_found(size_t task, const TaskPlace& place);
  std::unique_ptr<StallWatch> watch_stalls(const Work& work);
  void print(size_t task, Stream stream, std::string_view line);
  void keep(size_t task, std::string_view line);
  void report() const;
  // False when a trace is wanted and could not be written; that is said.
  bool write_trace() const;

  const RunOptions& options_;
  Poller& poller_;
  const std::string run_folder_;
  const std::string log_folder_;
  std::vector<std::unique_ptr<TaskLog>> logs_;
  std::unique_ptr<Printer> printer_;
  std::unique_ptr<Supervisor> supervisor_;
  std::unique_ptr<StallWatch> stalls_;
  std::unique_ptr<ProgressView> progress_;
  std::unique_ptr<TraceFile> trace_;  // when one is wanted
  bool lines_lost_ = false;           // and it was said
};

}  // namespace cohort::cli
