#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "cohort/trainer.h"

namespace cohort::internal {

class TrainerImpl;

// Who makes the steps of a Trainer: the replicas of this process, or workers elsewhere.
class StepRunner {
 public:
  // Waits for what the step gives.
  using Outcome = std::function<Tensor()>;

  virtual ~StepRunner() = default;
  // How many steps may be under way when the next one is begun.
  virtual size_t steps_ahead() const = 0;
  // Batches for them, to be walked over in this process.
  virtual DistributedDataset distribute(const data::Dataset& dataset) = 0;
  // The loss of the batch, a mean over all its examples. `times` lives as long as the outcome.
  virtual Outcome train(const DistributedElement& batch, int64_t examples, StepTimes& times) = 0;
  virtual Outcome evaluate(const DistributedElement& batch, int64_t examples) = 0;
  // What the model makes of it.
  virtual Outcome predict(const DistributedElement& batch) = 0;

  // Returns when no step is under way; what those gave does not matter.
  virtual void end_steps() {}
  // What gives the variables their last saved values, where tasks that hold them may be lost.
  virtual void set_restore(std::function<void()> /*restore*/) {}
  // Whether that was called since await_tasks(): steps before are undone.
  virtual bool has_restored() const { return false; }
  // Whether an error may be the loss of another task that await_tasks() helps against.
  virtual bool is_loss(const Status& /*error*/) const { return false; }
  // Ends all steps and returns when all tasks that they need are there, with variables that have
  // values. Throws what the tasks' absence is, after some time.
  virtual void await_tasks() {}
};
std::unique_ptr<StepRunner> make_step_runner(TrainerImpl& trainer);
std::unique_ptr<StepRunner> make_coordinated_runner(TrainerImpl& trainer);

// The steps that are under way, in the order in which they were begun.
class StepsUnderWay {
 public:
  using Finish = std::function<void(const Tensor& outcome, int64_t examples)>;

  StepsUnderWay(StepRunner& runner, Finish finish) : runner_(runner), finish_(std::move(finish)) {}
  // What is under way when something throws comes to its end.
  ~StepsUnderWay() {
    if (!steps_.empty()) runner_.end_steps();
  }
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  // Finishes the first ones where there are too many.
  void add(StepRunner::Outcome outcome, int64_t examples) {
    steps_.push_back({std::move(outcome), examples});
    while (steps_.size() > runner_.steps_ahead()) finish_first();
  }
  void finish_all() {
    while (!steps_.empty()) finish_first();
  }

 private:
  struct Step {
    StepRunner::Outcome outcome;
    int64_t examples;
  };
  void finish_first() {
    const Tensor outcome = steps_.front().outcome();
    const int64_t examples = steps_.front().examples;
    steps_.pop_front();
    finish_(outcome, examples);
  }

  StepRunner& runner_;
  const Finish finish_;
  std::deque<Step> steps_;
};

}  // namespace cohort::internal
