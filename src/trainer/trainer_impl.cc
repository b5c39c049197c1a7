#include "trainer/trainer_impl.h"

#include "base/raise.h"
#include "distribute/lone_process.h"
#include "distribute/update_guards.h"
#include "trainer/stopwatch.h"

namespace cohort::internal {
namespace {

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
      options(the_options),
      runner(make_step_runner(*this)) {
  if (!has_strategy()) warn_if_one_of_several("Trainer");
}

int64_t global_examples(const Strategy& strategy, const DistributedElement& batch) {
  if (batch.knows_global_samples()) return batch.global_sample_count();
  // Workers of endless data do not count together, and their batches need not be equal.
  InputTotals here;
  for (const int64_t count : batch.sample_counts()) here.samples += count;
  return strategy.extended().sum_over_workers(here).samples;
}

void TrainerImpl::Totals::add(const Tensor& mean_loss, int64_t count) {
  loss += mean_loss.to<double>() * static_cast<double>(count);
  examples += count;
}

Tensor TrainerImpl::part_of_loss(const Tensor& outputs, const Tensor& labels,
                                 int64_t examples) const {
  const Tensor own = loss(outputs, labels, {.global_batch_size = examples});
  const std::vector<Tensor> penalties = model.losses();
  return penalties.empty() ? own : own + nn::scale_regularization_loss(penalties);
}

Tensor TrainerImpl::train_step(const DistributedElement& batch, int64_t examples,
                               StepTimes* times) {
  const auto step = [&](const data::Element& element) {
    check_pair(element);
    Stopwatch clock;
    GradientTape tape;
    const Tensor y = model.call(to_input(element[0]));
    const Tensor value = part_of_loss(y, element[1], examples);
    const std::vector<Variable> variables = model.variables();
    const Gradients gradients = tape.gradient(value, variables);
    const double compute = clock.lap();
    optimizer.apply_gradients(gradients, variables);
    for (const MeasuredMetric& metric : options.metrics) metric.update(element[1], y);
    if (times != nullptr && get_replica_context()->local_replica() == 0) {
      times->compute += compute;
      times->update += clock.lap();
    }
    return value;
  };
  return strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
}

Tensor TrainerImpl::evaluate_step(const DistributedElement& batch, int64_t examples) {
  const auto step = [&](const data::Element& element) {
    check_pair(element);
    const Tensor y = model.call(to_input(element[0]));
    for (const MeasuredMetric& metric : options.metrics) metric.update(element[1], y);
    return part_of_loss(y, element[1], examples);
  };
  return strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
}

Tensor TrainerImpl::outputs(const DistributedElement& batch) {
  const auto step = [&](const data::Element& element) {
    return model.call(to_input(element.is_tensor() ? element : element[0]));
  };
  return strategy.gather(strategy.run(step, batch), 0);
}

void TrainerImpl::walk(const data::Dataset& dataset, const Begin& begin,
                       const StepsUnderWay::Finish& finish) {
  StepsUnderWay under_way(*runner, finish);
  const DistributedDataset batches = runner->distribute(dataset);
  DistributedIterator input = batches.iterator();
  while (const std::optional<DistributedElement> batch = input.next_optional()) {
    const int64_t examples = global_examples(strategy, *batch);
    under_way.add(begin(*batch, examples), examples);
  }
  under_way.finish_all();
}

void TrainerImpl::compare_models() {
  StrategyExtended& extended = strategy.extended();
  const bool several_workers =
      strategy.num_replicas_in_sync() > static_cast<int>(extended.num_local_replicas());
  const GuardOptions guards = extended.guards();
  if (!several_workers || guards.divergence == GuardAction::Off) return;
  const auto step = optimizer.iterations().read_value().to<int64_t>();
  strategy.run(
      [&] { guard_against_divergence(*get_replica_context(), guards, model.variables(), step); });
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
