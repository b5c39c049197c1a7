#include "cohort/trainer.h"

#include "base/raise.h"
#include "cohort/ops.h"
#include "trainer/fit.h"

namespace cohort {
namespace {

using internal::TrainerImpl;

// While it lives, layers are in evaluation mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(const internal::TrainedModel& model) : model_(model) {
    model_.set_training(false);
  }
  ~EvaluationMode() { model_.set_training(true); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  const internal::TrainedModel& model_;
};

[[noreturn]] void refuse_empty(std::string_view what) {
  internal::raise(Code::InvalidArgument, "[Trainer::{}] the dataset has no element", what);
}

void check_end(std::string_view what, const data::Dataset& dataset) {
  if (dataset.cardinality() != data::kInfinite) return;
  internal::raise(Code::InvalidArgument,
                  "[Trainer::{}] the dataset has no end; take(n) gives its first n batches", what);
}

}  // namespace

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
  return internal::Fit(*this, *impl_, dataset, options).run();
}

Logs Trainer::evaluate(const data::Dataset& dataset) {
  check_end("evaluate", dataset);
  const EvaluationMode mode(impl_->model);
  impl_->reset_metrics();
  TrainerImpl::Totals totals;
  impl_->walk(
      dataset,
      [&](const DistributedElement& batch, int64_t examples) {
        return impl_->runner->evaluate(batch, examples);
      },
      [&](const Tensor& loss, int64_t examples) { totals.add(loss, examples); });
  if (totals.examples == 0) refuse_empty("evaluate");
  impl_->compare_models();
  return impl_->logs(totals);
}

Tensor Trainer::predict(const data::Dataset& dataset) {
  check_end("predict", dataset);
  const EvaluationMode mode(impl_->model);
  std::vector<Tensor> outputs;
  impl_->walk(
      dataset,
      [&](const DistributedElement& batch, int64_t) { return impl_->runner->predict(batch); },
      [&](const Tensor& some, int64_t) { outputs.push_back(some); });
  if (outputs.empty()) refuse_empty("predict");
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
