#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "cluster/long_waits.h"
#include "cluster/part_run.h"
#include "cluster/worker_plan.h"

namespace cohort::internal {

// One run of a task's plan. It begins with the first message about it: the request to run, or
// tensors from a task that was faster. No thread waits for tensors: a part stops where one is
// missing and goes on when that arrives, on the thread that brings it when the plan is quick, else
// on one of the pool. Thread-safe.
class WorkerStep : public std::enable_shared_from_this<WorkerStep> {
 public:
  // Called once, at the end, with the fetches by position; not before start().
  using Finished = std::function<void(PlanDone)>;

  WorkerStep(std::shared_ptr<const WorkerPlan> plan, uint64_t id);

  // Throws InvalidArgument, before anything runs, for feeds that are not the plan's.
  void start(RunPlan run, Finished finished);
  // From another task. Throws InvalidArgument for what the plan does not expect.
  void arrive(StepTensors tensors);
  // Ends the step soon with `why`. Harmless when it is over.
  void cancel(Status why);

  // What its parts have waited for since before that time.
  std::vector<LongWait> waits(std::chrono::steady_clock::time_point before);

  uint64_t id() const { return id_; }
  const WorkerPlan& plan() const { return *plan_; }

 private:
  friend class PartRun;
  // What has come for a part since that looked last.
  struct Incoming {
    std::vector<std::pair<int, Tensor>> fresh = {};    // by place among the plan's arrivals
    int awaited = WorkerPlan::kNone;                   // the place of what the part stopped for
    std::chrono::steady_clock::time_point since = {};  // when it did
  };

  // For PartRun.
  void put(int64_t edge, const Tensor& value);
  // Moves what has come for the part to its places in `arrived`, and says whether there is
  // something at `place`, or will never be. If not, and `stop`, the part is run again when there
  // is.
  enum class IfMissing { Stop, Return };
  bool collect(int part, int place, std::vector<Tensor>& arrived, IfMissing if_missing);

  // The place of an edge's tensor, which comes from outside.
  int checked_place(uint64_t edge, const Tensor& tensor) const;
  void add_fresh(int place, Tensor value);  // mutex_ is held, as for the next
  void make_ready(int part);
  void drive();
  void run_part(int part);
  void flush_at_end(PartRun& run);
  void part_ended(int part, Status status);
  void finish();

  const std::shared_ptr<const WorkerPlan> plan_;
  const uint64_t id_;
  Cancellation cancellation_;
  bool quick_ = false;  // constant from start() on, as the next ones
  RunPlan run_;
  Finished finished_;
  std::chrono::steady_clock::time_point start_;
  std::vector<std::unique_ptr<PartRun>> parts_;

  Mutex mutex_;
  std::vector<Incoming> incoming_;                    // by part; guarded by mutex_, as all below
  std::vector<std::shared_ptr<const void>> charges_;  // for tensors that came from peers
  std::deque<int> ready_;
  bool driving_ = false;
  size_t running_ = 0;  // parts that have not ended
  PlanDone done_;
  std::vector<Status> statuses_;
  int64_t busy_ns_ = 0;
};

}  // namespace cohort::internal
