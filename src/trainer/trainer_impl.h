#pragma once

#include <memory>

#include "cohort/trainer.h"

namespace cohort::internal {

// What a Trainer is made of.
class TrainerImpl {
 public:
  TrainerImpl(const TrainedModel& model, LossFunction loss, optim::Optimizer& optimizer,
              const TrainerOptions& options);

  // One pass over the data with the outcome of each step added up.
  struct Totals {
    double loss = 0;  // of all examples together
    int64_t examples = 0;
  };
  // The loss of this batch, a mean over it.
  double train_step(const DistributedElement& batch, int64_t examples, StepTimes& times);
  double evaluate_step(const DistributedElement& batch, int64_t examples);
  Tensor outputs(const DistributedElement& batch);

  // "loss" and the metrics.
  Logs logs(const Totals& totals) const;
  void reset_metrics() const;

  Tensor to_input(const Tensor& x) const { return options.input ? options.input(x) : x; }

  Strategy& strategy;
  const TrainedModel model;
  const LossFunction loss;
  optim::Optimizer& optimizer;
  const TrainerOptions options;
  TrainingProgress progress;
  bool stopping = false;
};

// Examples of all replicas in this step.
int64_t global_examples(const Strategy& strategy, const DistributedElement& batch);

}  // namespace cohort::internal
