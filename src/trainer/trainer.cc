#include "cohort/trainer.h"

#include <chrono>

#include "base/raise.h"
#include "cohort/ops.h"
#include "trainer/backup.h"
#include "trainer/progress_line.h"
#include "trainer/trainer_impl.h"

namespace cohort {
namespace internal {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void refuse_empty(std::string_view what) {
  raise(Code::InvalidArgument, "[Trainer::{}] the dataset has no element", what);
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

std::optional<int64_t> known_count(int64_t cardinality) {
  return cardinality >= 0 ? std::optional(cardinality) : std::nullopt;
}

// One call of Trainer::fit.
class Fit {
 public:
  Fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset, const FitOptions& options)
      : trainer_(trainer),
        impl_(impl),
        options_(options),
        batches_(impl.strategy.distribute_dataset(dataset)),
        backup_(impl, options, batches_),
        callbacks_(options.callbacks) {
    if (options.progress && trainer.is_chief()) {
      callbacks_.push_back(std::make_shared<ProgressLine>());
    }
    impl.stopping = false;
    impl.progress = {.epochs = options.epochs};
    impl.progress.steps_per_epoch = known_count(batches_.cardinality());
  }

  History run() {
    std::optional<Backup::Restored> interrupted = backup_.restore(history_);
    call([&](Callback& callback) { callback.on_fit_begin(trainer_); });
    if (interrupted && interrupted->input) run_epoch(interrupted->totals, *interrupted->input);
    while (impl_.progress.epoch < options_.epochs && !impl_.stopping) begin_epoch();
    call([&](Callback& callback) { callback.on_fit_end(trainer_); });
    return history_;
  }

 private:
  template <typename F>
  void call(const F& f) {
    for (const std::shared_ptr<Callback>& callback : callbacks_) f(*callback);
  }

  void begin_epoch() {
    TrainingProgress& progress = impl_.progress;
    ++progress.epoch;
    progress.step_of_epoch = 0;
    impl_.reset_metrics();
    DistributedIterator input = batches_.iterator();
    run_epoch({}, input);
  }

  void run_epoch(TrainerImpl::Totals totals, DistributedIterator& input) {
    TrainingProgress& progress = impl_.progress;
    progress.examples = totals.examples;
    progress.times = {};
    call([&](Callback& callback) { callback.on_epoch_begin(trainer_); });
    Clock::time_point asked = Clock::now();
    while (!impl_.stopping) {
      const std::optional<DistributedElement> batch = input.next_optional();
      if (!batch) break;
      progress.times.input += seconds_since(asked);
      run_step(*batch, totals);
      backup_.after_step(totals, input, history_);
      asked = Clock::now();
    }
    end_epoch(totals);
  }

  void run_step(const DistributedElement& batch, TrainerImpl::Totals& totals) {
    TrainingProgress& progress = impl_.progress;
    const int64_t examples = global_examples(impl_.strategy, batch);
    const double loss = impl_.train_step(batch, examples, progress.times);
    totals.loss += loss * static_cast<double>(examples);
    totals.examples += examples;
    progress.examples = totals.examples;
    ++progress.step;
    ++progress.step_of_epoch;
    // Metrics are read behind the epoch: where workers share them, a read is a step of its own.
    const Logs so_far = {{"loss", totals.loss / static_cast<double>(totals.examples)}};
    call([&](Callback& callback) { callback.on_step_end(trainer_, so_far); });
  }

  void end_epoch(const TrainerImpl::Totals& totals) {
    if (totals.examples == 0) refuse_empty("fit");
    impl_.progress.steps_per_epoch = impl_.progress.step_of_epoch;
    Logs logs = impl_.logs(totals);
    if (options_.validation) {
      for (const auto& [name, value] : trainer_.evaluate(*options_.validation)) {
        logs["val_" + name] = value;
      }
    }
    history_.epochs.push_back(logs);
    call([&](Callback& callback) { callback.on_epoch_end(trainer_, logs); });
    backup_.after_epoch(history_);
  }

  Trainer& trainer_;
  TrainerImpl& impl_;
  const FitOptions& options_;
  const DistributedDataset batches_;
  Backup backup_;
  Callbacks callbacks_;
  History history_;
};

}  // namespace
}  // namespace internal

Trainer::Trainer(const TrainedModel& model, LossFunction loss, optim::Optimizer& optimizer,
                 const TrainerOptions& options)
    : impl_(std::make_unique<internal::TrainerImpl>(model, std::move(loss), optimizer, options)) {}

Trainer::~Trainer() = default;

History Trainer::fit(const data::Dataset& dataset, const FitOptions& options) {
  if (options.epochs < 1 || options.backup_steps < 0) {
    internal::raise(Code::InvalidArgument,
                    "[Trainer::fit] epochs must be at least 1 and backup_steps not negative, got "
                    "{} and {}",
                    options.epochs, options.backup_steps);
  }
  return internal::Fit(*this, *impl_, dataset, options).run();
}

Logs Trainer::evaluate(const data::Dataset& dataset) {
  const internal::EvaluationMode mode(impl_->model);
  impl_->reset_metrics();
  internal::TrainerImpl::Totals totals;
  for (const DistributedElement& batch : impl_->strategy.distribute_dataset(dataset)) {
    const int64_t examples = internal::global_examples(impl_->strategy, batch);
    totals.loss += impl_->evaluate_step(batch, examples) * static_cast<double>(examples);
    totals.examples += examples;
  }
  if (totals.examples == 0) internal::refuse_empty("evaluate");
  return impl_->logs(totals);
}

Tensor Trainer::predict(const data::Dataset& dataset) {
  const internal::EvaluationMode mode(impl_->model);
  std::vector<Tensor> outputs;
  for (const DistributedElement& batch : impl_->strategy.distribute_dataset(dataset)) {
    outputs.push_back(impl_->outputs(batch));
  }
  if (outputs.empty()) internal::refuse_empty("predict");
  return concat(outputs, 0);
}

const TrainingProgress& Trainer::progress() const { return impl_->progress; }
void Trainer::stop() { impl_->stopping = true; }
bool Trainer::is_chief() const { return impl_->strategy.extended().should_checkpoint(); }
optim::Optimizer& Trainer::optimizer() const { return impl_->optimizer; }
Strategy& Trainer::strategy() const { return impl_->strategy; }

Checkpoint Trainer::checkpoint() const {
  return Checkpoint({{"model", impl_->model.state}, {"optimizer", impl_->optimizer}});
}

}  // namespace cohort
