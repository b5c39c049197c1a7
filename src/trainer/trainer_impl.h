#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "cohort/trainer.h"

namespace cohort::internal {

class TrainerImpl;

// Measures the time since it was made or since the last lap().
class Stopwatch {
 public:
  std::chrono::nanoseconds lap() {
    const auto now = std::chrono::steady_clock::now();
    return now - std::exchange(last_, now);
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Makes the steps of a Trainer, with the replicas of this process or with workers elsewhere.
class StepRunner {
 public:
  // Waits for the result of a step.
  using Outcome = std::function<Tensor()>;

  virtual ~StepRunner() = default;
  // How many steps may be under way when the next step is begun.
  virtual size_t steps_ahead() const = 0;
  // The batches for the steps. This process iterates over them.
  virtual DistributedDataset distribute(const data::Dataset& dataset) = 0;
  // The loss of the batch, a mean over all its examples. `times` lives as long as the outcome.
  virtual Outcome train(const DistributedElement& batch, int64_t examples, StepTimes& times) = 0;
  virtual Outcome evaluate(const DistributedElement& batch, int64_t examples) = 0;
  // The outputs of the model.
  virtual Outcome predict(const DistributedElement& batch) = 0;

  // Returns when no step is under way. The results of those steps are dropped.
  virtual void end_steps() {}
  // Sets how variables get their last saved values, where tasks that hold them may be lost.
  virtual void set_restore(std::function<void()> /*restore*/) {}
  // Whether `restore` was called since await_tasks(), which undid the steps before.
  virtual bool has_restored() const { return false; }
  // Whether the error may be the loss of a task for which await_tasks() can wait.
  virtual bool is_loss(const Status& /*error*/) const { return false; }
  // Ends all steps and returns when all tasks are there and the variables have values. Throws the
  // error of a task that does not come back in time.
  virtual void await_tasks() {}
};
std::unique_ptr<StepRunner> make_step_runner(TrainerImpl& trainer);

// The steps that are under way, in the order in which they were begun.
class StepsUnderWay {
 public:
  using Finish = std::function<void(const Tensor& outcome, int64_t examples)>;

  StepsUnderWay(StepRunner& runner, Finish finish) : runner_(runner), finish_(std::move(finish)) {}
  // Ends the steps that are under way when an exception leaves the loop.
  ~StepsUnderWay() {
    if (!steps_.empty()) runner_.end_steps();
  }
  StepsUnderWay(const StepsUnderWay&) = delete;
  StepsUnderWay& operator=(const StepsUnderWay&) = delete;

  // Finishes the first steps where too many are under way.
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

// The state and the steps of a Trainer.
class TrainerImpl {
 public:
  TrainerImpl(const TrainedModel& model, LossFunction loss, optim::Optimizer& optimizer,
              const TrainerOptions& options, Site site);

  // The outcomes of steps, added up.
  struct Totals {
    double loss = 0;  // of all examples together
    int64_t examples = 0;

    void add(const Tensor& mean_loss, int64_t count);
  };

  // What all replicas do with one batch, eagerly or traced; see StepRunner. `times` may be null.
  Tensor train_step(const DistributedElement& batch, int64_t examples, StepTimes* times);
  Tensor evaluate_step(const DistributedElement& batch, int64_t examples);
  Tensor outputs(const DistributedElement& batch);

  // Makes a step for every batch of the dataset, and calls `finish` with the results in order.
  using Begin = std::function<StepRunner::Outcome(const DistributedElement&, int64_t examples)>;
  void walk(const data::Dataset& dataset, const Begin& begin, const StepsUnderWay::Finish& finish);

  // "loss" and the metrics over the dataset, in evaluation mode. Calls `after_step`, if it is
  // given, after each step.
  Logs evaluate(const data::Dataset& dataset, const std::function<void()>& after_step = nullptr);

  // Calls a model whose first call makes variables on the first batch of the dataset, so that the
  // variables can be saved and restored.
  void build_model(const data::Dataset& dataset) const;

  // Throws on all workers unless all have the same model. One worker may have restored another
  // checkpoint, and then the parts of a result would not belong together.
  void compare_models();

  // The figures "loss" and the metrics.
  Logs logs(const Totals& totals) const;
  void reset_metrics() const;

  // A replica's part of the mean loss over all its examples, regularizers included.
  Tensor part_of_loss(const Tensor& outputs, const Tensor& labels, int64_t examples) const;
  // What the model makes of the inputs of a batch.
  Tensor output_of(const Tensor& x) const;
  void update_metrics(const Tensor& labels, const Tensor& outputs) const;

  Strategy& strategy;
  const TrainedModel model;
  const LossFunction loss;
  optim::Optimizer& optimizer;
  const TrainerOptions options;
  const Site site;  // where the Trainer was made: for the nodes of traced steps
  const std::unique_ptr<StepRunner> runner;
  TrainingProgress progress;
  std::atomic<bool> stop_requested = false;  // on this worker; Fit asks the others
};

// Throws InvalidArgument: the dataset that was given to Trainer::`what` is empty.
[[noreturn]] void refuse_empty(std::string_view what);

// Trainer::fit with options that are checked.
History fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset,
            const FitOptions& options);

// Examples of all replicas in this step.
int64_t global_examples(const Strategy& strategy, const DistributedElement& batch);

}  // namespace cohort::internal
