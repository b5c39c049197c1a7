#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "cluster/long_waits.h"
#include "cluster/master_plan.h"
#include "cluster/timers.h"
#include "transport/direct.h"

namespace cohort::internal {

// One run of a signature, seen by the master: one message to every task, one back from each. After
// the first failure the others are aborted and waited for, but not for ever. Thread-safe.
class MasterStep : public std::enable_shared_from_this<MasterStep> {
 public:
  // Called once, by whoever brings the last outcome.
  using Finished = std::function<void(StepDone)>;
  struct Setting {
    uint64_t session;
    uint64_t id;
    uint64_t number;  // see RunNumber
    std::chrono::milliseconds limit;
    std::string own_task;
    std::shared_ptr<Timers> timers;
  };

  MasterStep(std::shared_ptr<const MasterPlan> plan, RunStep run, Setting setting,
             Finished finished);

  void start();
  // What a task answered; one that does not take part is ignored.
  void done(const Link::Pointer& from, PlanDone outcome);
  void lost(const Link::Pointer& task, const Status& why);
  // Ends it with `why`, which becomes the outcome.
  void cancel(const Status& why);
  // The connection with a task that has not answered; none when only this one has not.
  std::optional<PendingWait> errand();
  // What it has waited for since before that time, if that is other tasks.
  std::optional<LongWait> wait(std::chrono::steady_clock::time_point before);

 private:
  void settle(size_t task, PlanDone outcome);
  void abort(const Status& why);
  void run_out_of_time();
  void give_up();
  void finish();
  bool is_waiting(size_t task) const { return !outcomes_[task].has_value(); }  // mutex_ is held
  std::vector<std::string> waited_for() const;                                 // mutex_ is held

  const std::shared_ptr<const MasterPlan> plan_;
  RunStep run_;
  const Setting setting_;
  const Finished finished_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();

  Mutex mutex_;
  std::vector<std::optional<Status>> outcomes_;  // of the tasks; guarded by mutex_, as all below
  size_t waiting_ = 0;
  Status cancelled_;
  bool aborted_ = false;
  std::vector<std::string> silent_;  // tasks that did not end when they were told to
  bool finished_once_ = false;
  StepDone result_;
  std::vector<Timers::Key> timers_;
};

}  // namespace cohort::internal
