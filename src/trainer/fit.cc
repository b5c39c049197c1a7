#include "trainer/fit.h"

#include "base/raise.h"
#include "distribute/input_iterator.h"
#include "trainer/progress_line.h"
#include "trainer/stopwatch.h"

namespace cohort::internal {
namespace {

// So often one error at one step is taken for the loss of another task. What a callback throws here
// each time may look like one.
constexpr int kSameErrors = 2;

std::optional<int64_t> known_count(int64_t cardinality) {
  return cardinality >= 0 ? std::optional(cardinality) : std::nullopt;
}

const Callbacks& checked(const Callbacks& callbacks) {
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] == nullptr) {
      raise(Code::InvalidArgument, "[Trainer::fit] callback {} is null; leave it out", i);
    }
  }
  return callbacks;
}

}  // namespace

Fit::Fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset,
         const FitOptions& options)
    : trainer_(trainer),
      impl_(impl),
      options_(options),
      batches_(impl.runner->distribute(dataset)),
      backup_(impl, options),
      callbacks_(checked(options.callbacks)) {
  if (options.progress && trainer.is_chief()) {
    callbacks_.push_back(std::make_shared<ProgressLine>());
  }
  impl.stopping = false;
  impl.progress = {.epochs = options.epochs};
  impl.progress.steps_per_epoch = options.steps_per_epoch > 0
                                      ? std::optional(options.steps_per_epoch)
                                      : known_count(batches_.cardinality());
}

History Fit::run() {
  std::optional<Status> lost;
  while (true) {
    try {
      if (lost) backup_.await_tasks(*lost);
      resume();
      train();
      return history_;
    } catch (const Error& error) {
      if (!backup_.can_recover(error.status()) || happens_again(error.status())) throw;
      lost = error.status();
    }
  }
}

bool Fit::happens_again(const Status& error) {
  const bool same = error.message == last_error_ && impl_.progress.step == last_step_;
  times_ = same ? times_ + 1 : 1;
  last_error_ = error.message;
  last_step_ = impl_.progress.step;
  return times_ > kSameErrors;
}

void Fit::resume() {
  const std::optional<Backup::Place> found = backup_.restore(history_);
  place_ = found.value_or(Backup::Place());
  input_.reset();
  call([&](Callback& callback) { callback.on_fit_begin(trainer_); });
  if (!found) backup_.begin(history_);
}

void Fit::train() {
  if (!place_.position.empty()) input_.emplace(batches_.iterator(place_.position));
  if (input_ && !place_.ended) run_epoch();
  while (impl_.progress.epoch < options_.epochs && !impl_.stopping) begin_epoch();
  call([&](Callback& callback) { callback.on_fit_end(trainer_); });
}

void Fit::begin_epoch() {
  TrainingProgress& progress = impl_.progress;
  ++progress.epoch;
  progress.step_of_epoch = 0;
  place_ = {.totals = {}, .position = {}, .walks = place_.walks, .ended = false};
  impl_.reset_metrics();
  if (options_.steps_per_epoch == 0 || !input_) begin_walk();
  run_epoch();
}

// The order of a shuffle depends on the walk alone, not on how often a process began one.
void Fit::begin_walk() {
  input_.emplace(
      std::make_shared<DistributedInputIterator>(batches_.input(), nullptr, place_.walks++));
}

void Fit::run_epoch() {
  TrainingProgress& progress = impl_.progress;
  progress.examples = place_.totals.examples;
  progress.times = {};
  const bool begins = place_.position.empty();
  if (begins) call([&](Callback& callback) { callback.on_epoch_begin(trainer_); });
  int64_t begun = progress.step;
  const int64_t steps = options_.steps_per_epoch;
  const int64_t end = steps == 0 ? -1 : begun - progress.step_of_epoch + steps;
  StepsUnderWay under_way(
      *impl_.runner, [this](const Tensor& loss, int64_t examples) { finish_step(loss, examples); });
  while (!impl_.stopping && begun != end) {
    const std::optional<DistributedElement> batch = next_batch();
    if (!batch) break;
    const int64_t examples = global_examples(impl_.strategy, *batch);
    under_way.add(impl_.runner->train(*batch, examples, progress.times), examples);
    if (!backup_.is_due(++begun)) continue;
    under_way.finish_all();
    place_.position = input_->save();
    backup_.save(place_, history_);
  }
  under_way.finish_all();
  end_epoch();
}

std::optional<DistributedElement> Fit::next_batch() {
  Stopwatch clock;
  std::optional<DistributedElement> batch = input_->next_optional();
  if (!batch && options_.steps_per_epoch > 0) {
    begin_walk();
    batch = input_->next_optional();
  }
  impl_.progress.times.input += clock.lap();
  return batch;
}

void Fit::finish_step(const Tensor& loss, int64_t examples) {
  check_restored();
  TrainingProgress& progress = impl_.progress;
  TrainerImpl::Totals& totals = place_.totals;
  totals.add(loss, examples);
  progress.examples = totals.examples;
  ++progress.step;
  ++progress.step_of_epoch;
  // Metrics are read behind the epoch: where workers share them, a read is a step of its own.
  const Logs so_far = {{"loss", totals.loss / static_cast<double>(totals.examples)}};
  call([&](Callback& callback) { callback.on_step_end(trainer_, so_far); });
}

void Fit::end_epoch() {
  if (place_.totals.examples == 0 && impl_.stopping) {  // before its first step
    --impl_.progress.epoch;
    return;
  }
  if (place_.totals.examples == 0) {
    raise(Code::InvalidArgument, "[Trainer::fit] the dataset has no element");
  }
  impl_.progress.steps_per_epoch = impl_.progress.step_of_epoch;
  Logs logs = impl_.logs(place_.totals);
  if (options_.validation) {
    for (const auto& [name, value] : trainer_.evaluate(*options_.validation)) {
      logs["val_" + name] = value;
    }
  }
  check_restored();
  history_.epochs.push_back(logs);
  call([&](Callback& callback) { callback.on_epoch_end(trainer_, logs); });
  backup_.save({.totals = {},
                .position = options_.steps_per_epoch > 0 ? input_->save() : "",
                .walks = place_.walks,
                .ended = true},
               history_);
}

void Fit::check_restored() const {
  if (!impl_.runner->has_restored()) return;
  raise(Code::Aborted,
        "[Trainer] a parameter server was started again without its variables; all of them are "
        "those of the last backup");
}

}  // namespace cohort::internal
