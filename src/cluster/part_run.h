#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "cluster/worker_plan.h"
#include "runtime/call_plan.h"
#include "runtime/executor.h"

namespace cohort::internal {

class WorkerStep;

// The part of a step on one device: the context of its kernels, and the edges that they see. What
// goes to one peer is gathered and sent together: when the part stops or ends, or when much or old
// enough.
class PartRun : public FunctionCaller, public EdgeTable, public Arrivals {
 public:
  PartRun(WorkerStep& step, int index);

  // See PlanRun.
  bool advance() { return run_.advance(); }
  std::vector<Tensor> fetches() const { return run_.fetches(); }
  const std::vector<StepTime>& times() const { return times_; }
  // Sends what is gathered. Throws Unavailable, naming the peer, when it is lost.
  void flush();
  // The same at the end of the task's part in the step: what goes to the master's task is returned,
  // to go there with the result.
  StepTensors flush_last();

  ResourceTable& resources() override;
  Cancellation& cancellation() override;
  EdgeTable& edges() override { return *this; }
  uint64_t run_number() override;

  void send(int64_t edge, const Tensor& value) override;
  Tensor receive(int64_t edge, Cancellation& cancellation) override;
  bool await(int64_t edge) override;

 private:
  struct Outbox {
    StepTensors tensors = {};
    int64_t bytes = 0;
    std::chrono::steady_clock::time_point since = {};
  };
  static bool is_old(Outbox& outbox);
  void flush(size_t peer);
  StepTensors take(size_t peer);

  WorkerStep& step_;
  const int index_;
  const WorkerPlan::Part& part_;
  std::vector<Outbox> outboxes_;  // one for each peer
  std::vector<Tensor> arrived_;   // and not taken yet; one for each arrival of the task's plan
  std::vector<StepTime> times_;
  PlanRun run_;
};

}  // namespace cohort::internal
