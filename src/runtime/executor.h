#pragma once

#include <chrono>
#include <span>
#include <string_view>
#include <vector>

#include "graph/function_graph.h"
#include "ops/run_context.h"
#include "runtime/compiled_run.h"

namespace cohort::internal {

// The time at which one step of a plan ran.
struct StepTime {
  const Node* node;
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point end;
  int64_t output_bytes;
};

// Adds the steps that took 20 microseconds or longer to the process's timeline, in the row of that
// device. Keeping a shorter step would cost a part of its time.
void add_to_timeline(const std::vector<StepTime>& steps, std::string_view device);

// The tensors that one part of a run exchanges with other parts. Each edge is sent once and taken
// once in a run.
class Edges {
 public:
  virtual ~Edges() = default;
  // Never blocks.
  virtual void send(int64_t edge, const Tensor& value) = 0;
  // Returns whether the tensor of the edge has arrived, or never will because the run is cancelled.
  // If false, the part is advanced again when that changes, on any thread, perhaps before this call
  // returns.
  virtual bool await(int64_t edge) = 0;
  // Called after await() has returned true. Throws what cancels the run.
  virtual Tensor take(int64_t edge) = 0;
};

// One run of a plan, which can stop where a tensor is missing and go on later. This is the loop
// that runs the steps of sessions, functions and cluster workers. The steps run one after the
// other, on the calling thread and its device. A value lives until its last use and is handed to
// that use alone, so that kernels may write their result over it.
class PlanRun {
 public:
  struct Setting {
    std::vector<StepTime>* times = nullptr;  // filled if not null
    Edges* edges = nullptr;                  // null: the plan must not exchange tensors
    // The settled values of this plan on the context's device. Without them the settled steps run
    // each time.
    SettledValues* settled = nullptr;
  };
  PlanRun(const Plan& plan, std::span<const Tensor> feeds, RunContext& context, Setting setting);

  // Returns true at the end. Returns false if a tensor is missing; the caller must not touch the
  // run then, because another thread may be advancing it already. Throws the error of a kernel,
  // with the node, its device and the line of the program that created it. Checks the cancellation
  // of the context between steps.
  bool advance();
  // The fetches, after the end of the run.
  std::vector<Tensor> fetches() const;

 private:
  Edges& edges() const;
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

// Runs a plan without edges from beginning to end and returns the fetches.
std::vector<Tensor> run_plan(const Plan& plan, std::span<const Tensor> feeds, RunContext& context,
                             PlanRun::Setting setting = {});

// The plan of a function's body, compiled at the first call and kept with the function.
const Plan& plan_of(const GraphFunction& function);

// The part of a RunContext that runs functions, in the thread and context of the caller.
class FunctionCaller : public RunContext {
 public:
  std::vector<Tensor> call(const GraphFunction& function, std::span<const Tensor> inputs) override;
};

// The context of a run that has one part: a session on one device, or the call of a function.
class CallContext : public FunctionCaller {
 public:
  // `resources` is null if named state has no place. `numbered` counts the runs of the session, or
  // the calls of the function; see RunNumber.
  CallContext(ResourceTable* resources, Cancellation& cancellation, std::atomic<uint64_t>& numbered)
      : resources_(resources), cancellation_(cancellation), number_(numbered) {}

  ResourceTable& resources() override;
  Cancellation& cancellation() override { return cancellation_; }
  uint64_t run_number() override { return number_.get(); }

 private:
  ResourceTable* const resources_;
  Cancellation& cancellation_;
  RunNumber number_;
};

}  // namespace cohort::internal
