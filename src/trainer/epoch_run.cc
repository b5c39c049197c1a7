#include <chrono>
#include <utility>

#include "base/raise.h"
#include "trainer/trainer_impl.h"

// What a Trainer does with one batch.

namespace cohort::internal {
namespace {

// Seconds since it was made or asked last.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void check_pair(const data::Element& element) {
  if (element.size() == 2 && !element.is_tensor()) return;
  raise(Code::InvalidArgument,
        "[Trainer] expected batches of (inputs, labels), got elements of {} tensors; map() the "
        "dataset to pairs",
        element.size());
}

}  // namespace

TrainerImpl::TrainerImpl(const TrainedModel& the_model, LossFunction the_loss,
                         optim::Optimizer& the_optimizer, const TrainerOptions& the_options)
    : strategy(get_strategy()),
      model(the_model),
      loss(std::move(the_loss)),
      optimizer(the_optimizer),
      options(the_options) {}

int64_t global_examples(const Strategy& strategy, const DistributedElement& batch) {
  const InputContext input = strategy.extended().input_context();
  if (input.num_input_pipelines() == 1) return batch.global_sample_count();
  // Workers of endless data do not count together; their batches are equal.
  int64_t here = 0;
  for (const int64_t count : batch.sample_counts()) here += count;
  const Status counted = capture_status([&] { here = batch.global_sample_count(); });
  return counted.ok() ? here : here * input.num_input_pipelines();
}

double TrainerImpl::train_step(const DistributedElement& batch, int64_t examples,
                               StepTimes& times) {
  const auto step = [&](const data::Element& element) {
    check_pair(element);
    Stopwatch clock;
    GradientTape tape;
    const Tensor y = model.call(to_input(element[0]));
    const Tensor value = loss(y, element[1], {.global_batch_size = examples});
    const std::vector<Variable> variables = model.variables();
    const Gradients gradients = tape.gradient(value, variables);
    const double compute = clock.lap();
    optimizer.apply_gradients(gradients, variables);
    for (const MeasuredMetric& metric : options.metrics) metric.update(element[1], y);
    if (get_replica_context()->local_replica() == 0) {
      times.compute += compute;
      times.update += clock.lap();
    }
    return value;
  };
  return strategy.reduce(ReduceOp::Sum, strategy.run(step, batch)).to<double>();
}

double TrainerImpl::evaluate_step(const DistributedElement& batch, int64_t examples) {
  const auto step = [&](const data::Element& element) {
    check_pair(element);
    const Tensor y = model.call(to_input(element[0]));
    for (const MeasuredMetric& metric : options.metrics) metric.update(element[1], y);
    return loss(y, element[1], {.global_batch_size = examples});
  };
  return strategy.reduce(ReduceOp::Sum, strategy.run(step, batch)).to<double>();
}

Tensor TrainerImpl::outputs(const DistributedElement& batch) {
  const auto step = [&](const data::Element& element) {
    return model.call(to_input(element.is_tensor() ? element : element[0]));
  };
  return strategy.gather(strategy.run(step, batch), 0);
}

Logs TrainerImpl::logs(const Totals& totals) const {
  Logs logs = {{"loss", totals.loss / static_cast<double>(totals.examples)}};
  for (const MeasuredMetric& metric : options.metrics) {
    logs[metric.metric().name()] = metric.metric().result().to<double>();
  }
  return logs;
}

void TrainerImpl::reset_metrics() const {
  for (const MeasuredMetric& metric : options.metrics) metric.metric().reset();
}

}  // namespace cohort::internal
