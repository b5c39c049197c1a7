#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "ops/run_context.h"
#include "runtime/plan.h"
#include "runtime/settled.h"

namespace cohort::internal {

// When one step of a plan ran.
struct StepTime {
  const Node* node;
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point end;
  int64_t output_bytes;
};

// Says which tensors from other parts are there, so that nobody blocks a thread to wait for one.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  // Whether the edge's value is there. If not, the run is to be advanced again when it is, or when
  // the run is cancelled; that may happen on another thread before this call returns.
  virtual bool await(int64_t edge) = 0;
};

// One run of a plan, which can stop where a tensor is missing and go on later. It takes its steps
// one after the other, on the calling thread and its device. A value lives until its last use and
// is handed to that use alone, so that kernels may write their result over it.
class PlanRun {
 public:
  struct Setting {
    std::vector<StepTime>* times = nullptr;  // filled when given
    // Without, a step that takes a tensor from another part blocks until it is there.
    Arrivals* arrivals = nullptr;
    // Of this plan on the context's device. Without, the settled steps run each time.
    SettledValues* settled = nullptr;
  };
  PlanRun(const Plan& plan, std::span<const Tensor> feeds, RunContext& context, Setting setting);

  // True at the end. False when a tensor is missing: touch nothing then, another thread may be in
  // here already. Throws what a kernel throws, with the node, its device and where in the program
  // it was made; checks the context's cancellation between steps.
  bool advance();
  // After the end.
  std::vector<Tensor> fetches() const;

 private:
  void settle();
  void take_inputs(const Plan::Step& step);
  void compute(const Plan::Step& step, std::span<Tensor> outputs);
  void send(const Plan::Step& step);
  void run_step(const Plan::Step& step);

  const Plan& plan_;
  RunContext& context_;
  const Setting setting_;
  std::vector<Tensor> slots_;
  std::vector<Tensor> inputs_;  // of the step that runs
  size_t next_ = 0;
};

// Runs a plan from beginning to end and returns the fetches.
std::vector<Tensor> run_plan(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                             PlanRun::Setting setting = {});

}  // namespace cohort::internal
