#include "cohort/trainer.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/update_guards.h"
#include "trainer/trainer_impl.h"

namespace cohort {
namespace internal {
namespace {

void check_pair(const data::Element& element) {
  if (element.size() == 2 && !element.is_tensor()) return;
  raise(Code::InvalidArgument,
        "[Trainer] expected batches of (inputs, labels), got elements of {} tensors; map() the "
        "dataset to pairs",
        element.size());
}

// While it lives, layers are in evaluation mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(const TrainedModel& model) : model_(model) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(true); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  const TrainedModel& model_;
};

[[noreturn]] void refuse_empty(std::string_view what) {
  raise(Code::InvalidArgument, "[Trainer::{}] the dataset has no element", what);
}

void check_end(std::string_view what, const data::Dataset& dataset) {
  if (dataset.cardinality() != data::kInfinite) return;
  raise(Code::InvalidArgument,
        "[Trainer::{}] the dataset has no end; take(n) gives its first n batches", what);
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
  // Workers that read endless data do not count together, and their batches may differ.
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

// The values of the batch do not matter, but they are some that the program expects: zeros may be
// none. A worker that comes back to the others calls the model alone, so nothing here is shared.
void TrainerImpl::build_model(const data::Dataset& dataset) const {
  if (model.is_built()) return;
  const std::optional<data::Element> first = dataset.iterate().next_optional();
  if (!first) return;
  check_pair(*first);
  const EvaluationMode mode(model);
  const auto scope = strategy.scope();
  model.call(to_input((*first)[0]));
}

Logs TrainerImpl::evaluate(const data::Dataset& dataset, const std::function<void()>& after_step) {
  check_end("evaluate", dataset);
  const EvaluationMode mode(model);
  reset_metrics();
  Totals totals;
  walk(
      dataset,
      [&](const DistributedElement& batch, int64_t examples) {
        return runner->evaluate(batch, examples);
      },
      [&](const Tensor& mean_loss, int64_t examples) {
        totals.add(mean_loss, examples);
        if (after_step) after_step();
      });
  if (totals.examples == 0) refuse_empty("evaluate");
  compare_models();
  return logs(totals);
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

}  // namespace internal

using internal::TrainerImpl;

Trainer::Trainer(const internal::TrainedModel& model, LossFunction loss,
                 optim::Optimizer& optimizer, const TrainerOptions& options)
    : impl_(std::make_unique<TrainerImpl>(model, std::move(loss), optimizer, options)) {}

Trainer::~Trainer() = default;

History Trainer::fit(const data::Dataset& dataset, const FitOptions& options) {
  if (options.epochs < 1 || options.backup_steps < 0 || options.steps_per_epoch < 0) {
    internal::raise(
        Code::InvalidArgument,
        "[Trainer::fit] epochs must be at least 1, steps_per_epoch and backup_steps not "
        "negative, got {}, {} and {}",
        options.epochs, options.steps_per_epoch, options.backup_steps);
  }
  if (options.steps_per_execution < 1) {
    internal::raise(Code::InvalidArgument,
                    "[Trainer::fit] steps_per_execution must be at least 1, got {}",
                    options.steps_per_execution);
  }
  return internal::fit(*this, *impl_, dataset, options);
}

Logs Trainer::evaluate(const data::Dataset& dataset) { return impl_->evaluate(dataset); }

Tensor Trainer::predict(const data::Dataset& dataset) {
  internal::check_end("predict", dataset);
  const internal::EvaluationMode mode(impl_->model);
  std::vector<Tensor> outputs;
  impl_->walk(
      dataset,
      [&](const DistributedElement& batch, int64_t) { return impl_->runner->predict(batch); },
      [&](const Tensor& some, int64_t) { outputs.push_back(some); });
  if (outputs.empty()) internal::refuse_empty("predict");
  impl_->compare_models();
  return concat(outputs, 0);
}

const TrainingProgress& Trainer::progress() const { return impl_->progress; }
void Trainer::stop() { impl_->stop_requested = true; }
bool Trainer::is_chief() const { return impl_->strategy.extended().should_checkpoint(); }
optim::Optimizer& Trainer::optimizer() const { return impl_->optimizer; }
std::vector<Variable> Trainer::variables() const { return impl_->model.all_variables(); }
Strategy& Trainer::strategy() const { return impl_->strategy; }

Checkpoint Trainer::checkpoint() const {
  return Checkpoint({{"model", impl_->model.state}, {"optimizer", impl_->optimizer}});
}

}  // namespace cohort
