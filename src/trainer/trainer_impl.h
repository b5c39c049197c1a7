#pragma once

#include <atomic>
#include <memory>

#include "cohort/trainer.h"
#include "trainer/step_runner.h"

namespace cohort::internal {

// The state and the steps of a Trainer.
class TrainerImpl {
 public:
  TrainerImpl(const TrainedModel& model, LossFunction loss, optim::Optimizer& optimizer,
              const TrainerOptions& options);

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

  // Throws on all workers unless all have the same model. One worker may have restored another
  // checkpoint, and then the parts of a result would not belong together.
  void compare_models();

  // The figures "loss" and the metrics.
  Logs logs(const Totals& totals) const;
  void reset_metrics() const;

  // A replica's part of the mean loss over all its examples, regularizers included.
  Tensor part_of_loss(const Tensor& outputs, const Tensor& labels, int64_t examples) const;
  Tensor to_input(const Tensor& x) const { return options.input ? options.input(x) : x; }

  Strategy& strategy;
  const TrainedModel model;
  const LossFunction loss;
  optim::Optimizer& optimizer;
  const TrainerOptions options;
  const std::unique_ptr<StepRunner> runner;
  TrainingProgress progress;
  std::atomic<bool> stop_requested = false;  // on this worker; Fit asks the others
};

// Trainer::fit with options that are checked.
History fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset,
            const FitOptions& options);

// Examples of all replicas in this step.
int64_t global_examples(const Strategy& strategy, const DistributedElement& batch);

}  // namespace cohort::internal
