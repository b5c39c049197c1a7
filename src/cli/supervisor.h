#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_plan.h"
#include "cli/task_host.h"

namespace cohort::cli {

struct SupervisorOptions {
  std::map<std::string, int> max_restarts = {};  // by job, and each task for itself; 0 if not there
  std::chrono::milliseconds grace{5'000};        // to end after being asked to
};

// One task under supervision.
struct SupervisedTask {
  TaskStart start = {};
  TaskId id = {};
  TaskHost* host = nullptr;
};

// Decides what happens when a task of a run ends, or somebody wants the run to end.
//
// A task that dies is started again while it has restarts left, a chief with all who are done
// already; else it ends the run, and the others are stopped. A run is over when everybody who
// trains is done, or the chief is, if there is one, and the others have had time to end; ps and
// evaluator are stopped then.
class Supervisor {
 public:
  using Clock = std::chrono::steady_clock;
  // `say` gets lines for the person in front of it.
  Supervisor(std::vector<SupervisedTask> tasks, SupervisorOptions options,
             std::function<void(const std::string&)> say);

  void start();
  void ended(size_t task, const Ending& ending);
  // The first time all are asked to end, then they are killed.
  void stop(int signal);
  // Does what is due. Call it after events and every now and then.
  void tick();
  // Whether tick() has to come soon.
  bool something_is_due() const { return stopping_ || stop_at_ != Clock::time_point::max(); }

  bool over() const;
  // After the end: 0, what the guilty task ended with, or 128 and the signal of stop().
  int exit_code() const;

  struct Outcome {
    std::optional<Ending> ending = std::nullopt;  // nothing: it runs, or was never started
    bool asked_to_stop = false;                   // before it ended
    int restarts = 0;
    Clock::time_point when = {};
  };
  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<SupervisedTask>& tasks() const { return tasks_; }
  // The task that the run died of: the first, or one that died just after it and looks more like a
  // cause than a consequence.
  std::optional<size_t> guilty() const;

 private:
  bool running(size_t task) const { return !outcomes_[task].ending.has_value(); }
  bool restart(size_t task, const Ending& ending);
  // Those who were done: a chief that begins anew needs them to come to its end again.
  void call_back();
  bool everybody_trained() const;
  bool chief_is_done() const;
  void ask_to_end();
  // Sends SIGTERM to the tasks whose turn it is: the chief first, or else all that train, so that
  // the tasks which keep the state of the training are there while it is saved.
  void ask_next();
  bool leads(size_t task) const;
  void signal_all(int signal);

  const std::vector<SupervisedTask> tasks_;
  const SupervisorOptions options_;
  const std::function<void(const std::string&)> say_;
  std::vector<Outcome> outcomes_;
  std::vector<bool> asked_;                               // by task: to end
  Clock::time_point stop_at_ = Clock::time_point::max();  // ask all to end
  Clock::time_point kill_at_ = Clock::time_point::max();
  Clock::time_point call_back_until_ = Clock::time_point::min();
  bool failed_ = false;
  bool stopping_ = false;
  int stop_signal_ = 0;
};

}  // namespace cohort::cli
