#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/timers.h"
#include "cluster/request_link.h"
#include "graph/partition.h"
#include "transport/direct_connection.h"

namespace cohort::internal {

// One signature of a session, seen by the master: which tasks take part, and which task gets which
// feeds and gives which fetches. It is constant once the tasks have registered their plans.
struct MasterPlan {
  struct Task {
    std::string name;
    Link::Pointer link = {};
    std::vector<size_t> feeds = {};  // positions in the request, in the task's order
    std::vector<size_t> fetches = {};
    RegisterPlan message = {};  // for the task; empty once it was sent
  };
  uint64_t id = 0;
  size_t num_feeds = 0;
  size_t num_fetches = 0;
  bool draws = false;  // random numbers, so that its runs are counted
  std::vector<Task> tasks = {};
};

// Groups the parts of a cut graph by task, and lists which task sends which edge to which other
// task. `local_task` comes last.
MasterPlan make_master_plan(uint64_t id, std::vector<Partition> parts, const RunRequest& request,
                            const std::string& local_task);

// One run of a signature, seen by the master: one message to every task, one answer from each.
// After the first failure the other tasks are aborted, and the master waits a limited time for
// them. Thread-safe.
class MasterStep : public std::enable_shared_from_this<MasterStep> {
 public:
  // Called once, by the thread that brings the last outcome.
  using Finished = std::function<void(StepDone)>;
  struct Setting {
    uint64_t session;
    uint64_t id;
    uint64_t number;  // see RunNumber
    std::chrono::milliseconds limit;
    std::string local_task;
    std::shared_ptr<Timers> timers;
  };

  MasterStep(std::shared_ptr<const MasterPlan> plan, RunStep run, Setting setting,
             Finished finished);

  void start();
  // The answer of a task; the answer of a task that does not take part is ignored.
  void done(const Link::Pointer& from, PlanDone outcome);
  void lost(const Link::Pointer& task, const Status& why);
  // Ends the step with `why`, which becomes the outcome.
  void cancel(const Status& why);
  // The connection to a task that has not answered; nullopt when only the task of the master has
  // not.
  std::optional<PendingWait> pending_wait();
  // Adds the other tasks that the step has waited for since before that time.
  void add_wait(std::chrono::steady_clock::time_point before, std::vector<LongWait>& waits);

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
  std::vector<std::string> silent_;  // tasks that did not end when they were aborted
  bool finished_once_ = false;
  StepDone result_;
  std::vector<Timers::Key> timers_;
};

}  // namespace cohort::internal
