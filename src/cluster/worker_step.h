#pragma once

#include <memory>
#include <vector>

#include "cluster/long_waits.h"
#include "cluster/worker_plan.h"
#include "runtime/graph_run.h"

namespace cohort::internal {

// One run of a task's plan. It begins with the first message about it: the request to run, or
// tensors from a task that was faster. Tensors for one peer are gathered and sent together: when a
// part stops or ends, or when they are many or old enough. Thread-safe.
class WorkerStep : public GraphRun {
 public:
  // Called once, at the end, with the fetches by position; not before start().
  using Finished = std::function<void(PlanDone)>;

  WorkerStep(std::shared_ptr<const WorkerPlan> plan, uint64_t id);

  // Throws InvalidArgument, before anything runs, for feeds that are not the plan's.
  void start(RunPlan run, Finished finished);
  // Tensors from another task. Throws InvalidArgument for those that the plan does not expect.
  void arrive(StepTensors tensors);

  // What the step's parts have waited for since before that time.
  std::vector<LongWait> waits(std::chrono::steady_clock::time_point before);

  const WorkerPlan& plan() const { return *plan_; }

 private:
  struct Outbox {
    StepTensors tensors = {};
    int64_t bytes = 0;
    std::chrono::steady_clock::time_point since = {};
  };
  static bool is_old(Outbox& outbox);

  // The place of an edge's tensor, which comes from outside.
  int checked_place(uint64_t edge, const Tensor& tensor) const;

  void run_part(size_t part) override;
  ResourceTable& resources(size_t part) override { return *plan_->parts[part].table; }
  uint64_t run_number() override { return run_.number; }
  void send_away(size_t part, int64_t edge, const Tensor& value) override;
  void before_taking(size_t part, bool has_arrived) override;
  void before_end(size_t part, bool is_last) override;
  void finished(RunResult result) override;

  // Sends what is gathered for the peer. Throws Unavailable, naming the peer, when it is lost.
  void flush(size_t peer, Outbox& outbox);
  StepTensors take(Outbox& outbox) const;

  const std::shared_ptr<const WorkerPlan> plan_;
  const uint64_t id_;
  RunPlan run_;  // constant from start() on, as the next
  Finished finished_;
  std::vector<std::vector<Outbox>> outboxes_;  // by part and peer; used by the part's thread
  StepTensors last_tensors_;                   // set by the thread that ends the last part

  Mutex mutex_;
  std::vector<std::shared_ptr<const void>> charges_;  // for tensors of peers; guarded by mutex_
};

}  // namespace cohort::internal
