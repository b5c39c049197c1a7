#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launch/task_host.h"

namespace cohort::cli {

// A task of a run, and the machine on which it runs.
struct RunTask {
  TaskStart start = {};
  TaskHost* host = nullptr;
};

// Decides what happens when a task of a run ends, or the user wants the run to end.
//
// A task that dies is started again while it has restarts left. Tasks that have finished are
// started again with a chief. Without restarts left, the death of a task stops the run. A run is
// over when all tasks that train are done, or the chief is done and the others have had time to
// end; then ps and evaluator are stopped. One thread.
class RunController {
 public:
  using Clock = internal::Clock;
  struct Options {
    std::map<std::string, int> max_restarts = {};  // of each task, by job; 0 for other jobs
    std::chrono::milliseconds grace{5'000};        // to end after SIGTERM
  };
  // `say` gets lines for the user.
  RunController(std::vector<RunTask> tasks, Options options,
                std::function<void(const std::string&)> say,
                Clock& clock = internal::system_clock());

  void start();
  void ended(size_t task, const Ending& ending);
  // Asks all tasks to end; the second call kills them.
  void stop(int signal);
  // Asks all tasks to end, because a machine that runs some of them was asked to end by the signal.
  // Kills none: one signal may reach several machines of the run.
  void stop_for(const std::string& machine, int signal);
  // Stops or kills tasks whose time has come. Call it after events and from time to time.
  void tick();
  // Whether tick() must be called soon.
  bool something_is_due() const { return stopping_ || stop_at_ != Clock::Time::max(); }

  bool over() const;
  // Valid after the end: 0, the exit code of the guilty task, or 128 + the signal of stop().
  int exit_code() const;

  struct Outcome {
    std::optional<Ending> ending = std::nullopt;  // empty: it runs, or was never started
    bool asked_to_stop = false;                   // before it ended
    int restarts = 0;
    Clock::Time when = {};
  };
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<RunTask>& tasks() const { return tasks_; }
  // The task whose death ended the run: the first that died, or one that died just after it and
  // looks more like the cause.
  std::optional<size_t> guilty() const;
  // How often each task of the job may be started again.
  int max_restarts(const std::string& job) const {
    const auto allowed = options_.max_restarts.find(job);
    return allowed == options_.max_restarts.end() ? 0 : allowed->second;
  }

 private:
  bool running(size_t task) const { return !outcomes_[task].ending.has_value(); }
  bool restart(size_t task, const Ending& ending);
  // Starts the finished tasks again, because a restarted chief needs them to finish.
  void start_finished_tasks();
  bool any_runs(bool (*wanted)(const TaskId& task)) const;
  bool chief_is_done() const;
  void ask_to_end();
  // Sends SIGTERM to the next tasks: the chief first, or else all that train, so that the parameter
  // servers are there while the training is saved.
  void ask_next();
  void say_killed() const;
  void signal_all(int signal);

  const std::vector<RunTask> tasks_;
  const Options options_;
  const std::function<void(const std::string&)> say_;
  Clock& clock_;
  bool (*const leads_)(const TaskId& task);  // whether a task ends before the others
  std::vector<Outcome> outcomes_;
  std::vector<bool> asked_;  // by task: whether it was asked to end
  Clock::Time stop_at_ = Clock::Time::max();
  Clock::Time kill_at_ = Clock::Time::max();
  Clock::Time chief_restarted_until_ = Clock::Time::min();  // see kFarewell
  bool failed_ = false;
  bool stopping_ = false;
  bool machine_stops_ = false;  // a machine was asked to end, and no user has called stop() since
  int stop_signal_ = 0;
};

// Explains a failed run on one screen: which task died and why, its last lines and its stack, and
// the other tasks in a line each or fewer. `log_files` are those of the tasks.
std::string failure_report(const RunController& run, size_t guilty,
                           const std::vector<std::string>& log_files);

}  // namespace cohort::cli
