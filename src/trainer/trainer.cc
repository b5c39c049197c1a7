#include "cohort/trainer.h"

#include "base/raise.h"
#include "base/site_scope.h"
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

void check_end(std::string_view what, const data::Dataset& dataset) {
  if (dataset.cardinality() != data::kInfinite) return;
  raise(Code::InvalidArgument,
        "[Trainer::{}] the dataset is infinite; take(n) gives its first n batches", what);
}

}  // namespace

void refuse_empty(std::string_view what) {
  raise(Code::InvalidArgument, "[Trainer::{}] the dataset is empty; expected at least one batch",
        what);
}

TrainerImpl::TrainerImpl(const TrainedModel& the_model, LossFunction the_loss,
                         optim::Optimizer& the_optimizer, const TrainerOptions& the_options,
                         Site made_at)
    : strategy(get_strategy()),
      model(the_model),
      loss(std::move(the_loss)),
      optimizer(the_optimizer),
      options(the_options),
      site(made_at),
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

Tensor TrainerImpl::output_of(const Tensor& x) const {
  const UsersCode functions;
  return model.call(options.input ? options.input(x) : x, site);
}

void TrainerImpl::update_metrics(const Tensor& labels, const Tensor& outputs) const {
  const UsersCode functions;
  for (const MeasuredMetric& metric : options.metrics) metric.update(labels, outputs, site);
}

Tensor TrainerImpl::part_of_loss(const Tensor& outputs, const Tensor& labels,
                                 int64_t examples) const {
  const Tensor own = [&] {
    const UsersCode function;
    return loss(outputs, labels, {.global_batch_size = examples});
  }();
  const std::vector<Tensor> penalties = model.losses(site);
  return penalties.empty() ? own : own + nn::scale_regularization_loss(penalties);
}

Tensor TrainerImpl::train_step(const DistributedElement& batch, int64_t examples,
                               StepTimes* times) {
  const SiteScope there(site);
  const auto step = [&](const data::Element& element) {
    check_pair(element);
    Stopwatch clock;
    GradientTape tape;
    const Tensor y = output_of(element[0]);
    const Tensor value = part_of_loss(y, element[1], examples);
    const std::vector<Variable> variables = model.variables();
    const Gradients gradients = tape.gradient(value, variables);
    const std::chrono::nanoseconds compute = clock.lap();
    optimizer.apply_gradients(gradients, variables);
    update_metrics(element[1], y);
    if (times != nullptr && get_replica_context()->local_replica() == 0) {
      times->compute += compute;
      times->update += clock.lap();
    }
    return value;
  };
  return strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
}

Tensor TrainerImpl::evaluate_step(const DistributedElement& batch, int64_t examples) {
  const SiteScope there(site);
  const auto step = [&](const data::Element& element) {
    check_pair(element);
    const Tensor y = output_of(element[0]);
    update_metrics(element[1], y);
    return part_of_loss(y, element[1], examples);
  };
  return strategy.reduce(ReduceOp::Sum, strategy.run(step, batch));
}

Tensor TrainerImpl::outputs(const DistributedElement& batch) {
  const SiteScope there(site);
  const auto step = [&](const data::Element& element) {
    return output_of(element.is_tensor() ? element : element[0]);
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
  const std::optional<data::Element> first = dataset.iterator().next_optional();
  if (!first) return;
  check_pair(*first);
  const EvaluationMode mode(model);
  const auto scope = strategy.scope();
  output_of((*first)[0]);
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
                 optim::Optimizer& optimizer, const TrainerOptions& options, Site site)
    : impl_(std::make_unique<TrainerImpl>(model, std::move(loss), optimizer, options, site)) {}

Trainer::~Trainer() = default;

History Trainer::fit(const data::Dataset& dataset, const FitOptions& options) {
  const auto check = [](std::string_view option, int64_t value, std::string_view remedy) {
    if (value >= 1) return;
    internal::raise(Code::InvalidArgument, "[Trainer::fit] {} must be at least 1, got {}{}", option,
                    value, remedy);
  };
  check("epochs", options.epochs, "");
  check("steps_per_epoch", options.steps_per_epoch.value_or(1),
        "; leave it empty for one pass over the data");
  check("backup_steps", options.backup_steps.value_or(1),
        "; leave it empty for backups after each epoch only");
  check("steps_per_execution", options.steps_per_execution, "");
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

LossFunction::LossFunction(Tensor (*f)(const Tensor&, const Tensor&, nn::LossOptions, Site),
                           Site site)
    : call_([f, site](const Tensor& outputs, const Tensor& labels, const nn::LossOptions& options) {
        return f(outputs, labels, options, site);
      }) {}

}  // namespace cohort
