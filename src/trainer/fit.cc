#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/activity.h"
#include "base/end_signals.h"
#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "base/worker_outcomes.h"
#include "data/iteration.h"
#include "distribute/input/distributed_input.h"
#include "distribute/strategies/worker_strategies.h"
#include "trainer/fit_backup.h"
#include "trainer/progress_line.h"

namespace cohort::internal {
namespace {

// How often workers ask each other for signals; a part of the seconds that a task has to end.
constexpr int64_t kLookForSignalsMs = 500;

std::optional<int64_t> known_count(data::Cardinality cardinality) {
  return cardinality.is_number() ? std::optional(cardinality.count()) : std::nullopt;
}

const Callbacks& checked(const Callbacks& callbacks) {
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (callbacks[i] == nullptr) {
      raise(Code::InvalidArgument, "[Trainer::fit] callback {} is null; leave it out", i);
    }
  }
  return callbacks;
}

// One call of Trainer::fit. Workers that train together decide together whether they go on: each
// worker's callbacks only say what they want.
class Fit {
 public:
  Fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset, const FitOptions& options)
      : trainer_(trainer),
        impl_(impl),
        options_(options),
        dataset_(dataset),
        batches_(impl.runner->distribute(dataset)),
        backup_(impl, options),
        callbacks_(checked(options.callbacks)) {
    if (trainer.is_chief() && (options.progress || is_watched())) {
      callbacks_.push_back(make_progress_line(options.progress));
    }
    if (!options.backup.empty()) end_signals_.emplace();
    impl.stop_requested = false;
    impl.progress = {.epochs = options.epochs};
    impl.progress.steps_per_epoch =
        options.steps_per_epoch ? options.steps_per_epoch : known_count(batches_.cardinality());
  }

  // Trains to the end. Goes back to the last backup when another task is lost.
  History run() {
    std::optional<Status> lost;
    std::optional<EndSignals::Steps> steps;
    while (true) {
      try {
        if (lost) backup_.await_tasks(*lost);
        steps.reset();
        resume();
        steps.emplace();
        if (!lost) warn_of_end();
        train();
        return history_;
      } catch (const Error& error) {
        // A coordinator that waits for lost tasks looks for signals. The wait for workers does not.
        if (is_in_lockstep()) steps.reset();
        if (end_signals_ && EndSignals::received() != 0) end_unsaved(error.status());
        if (!backup_.can_recover(error.status())) throw;
        lost = error.status();
      }
    }
  }

 private:
  template <typename F>
  void call(const F& f) {
    together([&] {
      const bool stopped = impl_.stop_requested;
      for (const std::shared_ptr<Callback>& callback : callbacks_) f(*callback);
      if (!stopped && impl_.stop_requested) callback_stopped_ = true;
    });
  }

  // Runs `part` on each worker and shares the outcome. All workers stop when a callback of one
  // worker stopped the training. All make a backup when a signal asked one worker to end. A failure
  // of one worker ends the training on all; the other workers throw Cancelled.
  void together(const std::function<void()>& part) {
    const std::exception_ptr own = capture_exception(part);
    const bool asked_to_end = end_signals_ && EndSignals::received() != 0;
    std::vector<int64_t> counts = {impl_.stop_requested ? 1 : 0, own != nullptr ? 1 : 0,
                                   asked_to_end ? 1 : 0};
    const Status telling = capture_status([&] {
      counts = impl_.strategy.extended().sum_numbers(
          counts, "Trainer: workers that stop, that failed, that were asked to end");
    });
    if (own == nullptr) throw_if_error(telling);
    if (counts[1] > 0) throw_failures(own);
    stopping_ = counts[0] > 0;
    leaving_ = counts[2] > 0;
  }

  [[noreturn]] void throw_failures(const std::exception_ptr& own) {
    std::vector<std::string> failures;
    const Status telling = capture_status([&] {
      const std::vector<std::string> all =
          impl_.strategy.extended().gather_from_workers(outcome_text(own), "Trainer: failures");
      for (size_t worker = 0; worker < all.size(); ++worker) {
        if (all[worker].empty()) continue;
        failures.push_back(fmt::format("worker {}: {}", worker, split_texts(all[worker]).back()));
      }
    });
    if (own != nullptr) std::rethrow_exception(own);
    throw_if_error(telling);
    // Not Aborted, which would say that a worker is lost.
    raise(Code::Cancelled, "[Trainer] after step {} other workers failed; {}", impl_.progress.step,
          fmt::join(failures, "; "));
  }

  // Throws InvalidArgument on all workers unless they have the same settings. Returns the first
  // pass over the data.
  int64_t agree_on_start() {
    const std::string pass = std::to_string(data::internal::next_pass(dataset_));
    const std::vector<std::string> all = impl_.strategy.extended().gather_from_workers(
        join_texts({settings(), pass}), "Trainer: the start of fit()");
    const std::vector<std::string> first = split_texts(all[0]);
    for (size_t worker = 1; worker < all.size(); ++worker) {
      const std::string other = split_texts(all[worker]).at(0);
      if (other == first.at(0)) continue;
      raise(Code::InvalidArgument,
            "[Trainer::fit] all workers must train alike: worker 0 has {}; worker {} has {}",
            first[0], worker, other);
    }
    return std::stoll(first.at(1));
  }

  // The directory of the backup tells one fit() of a program from the next. A backup keeps the
  // callbacks' states by number; without a backup, workers may have different callbacks.
  std::string settings() const {
    const std::string backup =
        options_.backup.empty()
            ? "none"
            : fmt::format("'{}' of {} callbacks", options_.backup, options_.callbacks.size());
    return fmt::format(
        "epochs {}, steps_per_epoch {}, steps_per_execution {}, validation {}, backup {}, "
        "backup_steps {}, {} metrics",
        options_.epochs, options_.steps_per_epoch.value_or(0), options_.steps_per_execution,
        options_.validation ? "given" : "none", backup, options_.backup_steps.value_or(0),
        impl_.options.metrics.size());
  }

  // Whether a signal asked this process to end, and it trains without other workers.
  bool is_asked_alone() const {
    return end_signals_ && EndSignals::received() != 0 && !is_in_lockstep();
  }

  // Whether workers train together, each with its own Fit.
  bool is_in_lockstep() const { return joint_workers(impl_.strategy.extended()) != nullptr; }

  // Goes to the last backup, or to the beginning.
  void resume() {
    // A callback that stopped the training after the backup will see that step again.
    if (std::exchange(callback_stopped_, false)) impl_.stop_requested = false;
    const int64_t first_pass = agree_on_start();
    if (!options_.backup.empty()) together([&] { impl_.build_model(dataset_); });
    const std::optional<Backup::Place> found = backup_.restore(history_);
    place_ = found.value_or(Backup::Place{.walks = first_pass});
    data::internal::set_next_pass(dataset_, place_.walks);
    input_.reset();
    if (found) {
      together([&] {
        backup_.restore_callbacks();
        if (!place_.position.empty()) input_.emplace(batches_.iterator(place_.position));
      });
    }
    saved_step_ = impl_.progress.step;
    steps_to_look_ = steps_per_look_ = 1;
    if (place_.stopped) impl_.stop_requested = true;
    call([&](Callback& callback) { callback.on_fit_begin(trainer_); });
    if (!found) backup_.begin(place_, history_);
  }

  // Warns if the last backup is of the end of the training.
  void warn_of_end() const {
    const bool goes_on =
        (input_ && !place_.ended) || (impl_.progress.epoch < options_.epochs && !stopping_);
    if (impl_.progress.step == 0 || goes_on || !trainer_.is_chief()) return;
    log_warning(
        "[Trainer] fit() makes no step: the last backup in '{}' is of the end of the training, "
        "after {} epochs and {} steps; for a new training, choose another directory or delete this "
        "directory{}",
        options_.backup, impl_.progress.epoch, impl_.progress.step,
        stopping_ ? "" : "; more .epochs continue this training");
  }

  void train() {
    if (input_ && !place_.ended) run_epoch();
    while (impl_.progress.epoch < options_.epochs && !stopping_) begin_epoch();
    call([&](Callback& callback) { callback.on_fit_end(trainer_); });
  }

  // Makes a backup of the running epoch.
  void save_place() {
    backup_.save(
        [&] {
          place_.position = input_->save();
          place_.stopped = stopping_;
          return place_;
        },
        history_);
    saved_step_ = impl_.progress.step;
    end_if_asked();
  }

  // Called after a backup. Ends the process if a signal asked for it.
  void end_if_asked() {
    if (!end_signals_ || EndSignals::received() == 0) return;
    if (trainer_.is_chief()) {
      log_warning(
          "[Trainer] SIG{} asked the training to end: saved after step {} in '{}', from which the "
          "next start goes on",
          sigabbrev_np(EndSignals::received()), impl_.progress.step, options_.backup);
    }
    backup_.release_directory();
    EndSignals::end();
  }

  // A worker in lockstep that gets the signal after all have saved may meet the end of the others.
  // Under parameter servers, steps that are under way count nowhere yet.
  [[noreturn]] void end_unsaved(const Status& why) const {
    if (!is_in_lockstep() || impl_.progress.step != saved_step_) {
      log_error(
          "[Trainer] SIG{} asked the training to end, and after step {} it could not be saved: {}; "
          "the steps since the last backup, which was made after step {}, are lost; the next start "
          "goes on from there",
          sigabbrev_np(EndSignals::received()), impl_.progress.step, why.to_string(), saved_step_);
    }
    EndSignals::end();
  }

  void begin_epoch() {
    TrainingProgress& progress = impl_.progress;
    ++progress.epoch;
    progress.step_of_epoch = 0;
    place_ = {.walks = place_.walks};
    impl_.reset_metrics();
    if (!options_.steps_per_epoch || !input_) begin_walk();
    run_epoch();
  }

  // The order of a shuffle depends on the number of the pass alone, which goes on from one fit() to
  // the next and from a process to the one that resumes its training.
  void begin_walk() {
    input_ = Access::make<DistributedIterator>(std::make_shared<DistributedInputIterator>(
        Access::impl(batches_), nullptr, place_.walks++));
    data::internal::set_next_pass(dataset_, place_.walks);
  }

  void run_epoch() {
    TrainingProgress& progress = impl_.progress;
    progress.examples = place_.totals.examples;
    progress.times = {};
    const bool begins = place_.position.empty();
    if (begins) call([&](Callback& callback) { callback.on_epoch_begin(trainer_); });
    int64_t begun = progress.step;
    const int64_t end =
        options_.steps_per_epoch ? begun - progress.step_of_epoch + *options_.steps_per_epoch : -1;
    StepsUnderWay under_way(*impl_.runner, [this](const Tensor& loss, int64_t examples) {
      finish_step(loss, examples);
    });
    while (!stopping_ && begun != end) {
      const std::optional<DistributedElement> batch = next_batch();
      if (!batch) break;
      const int64_t examples = global_examples(impl_.strategy, *batch);
      under_way.add(impl_.runner->train(*batch, examples, progress.times), examples);
      if (!backup_.is_due(++begun) && !leaving_ && !is_asked_alone()) continue;
      under_way.finish_all();
      save_place();
    }
    under_way.finish_all();
    // A validation may take longer than a process that is asked to end has. A training that goes on
    // from here has no step left in this epoch, and validates.
    if (options_.validation && place_.totals.examples > 0 && saved_step_ != progress.step)
      save_place();
    if (progress.step_of_epoch % options_.steps_per_execution != 0) end_execution();
    end_epoch();
  }

  std::optional<DistributedElement> next_batch() {
    Stopwatch clock;
    std::optional<DistributedElement> batch = input_->next_optional();
    if (!batch && options_.steps_per_epoch) {
      begin_walk();
      batch = input_->next_optional();
    }
    impl_.progress.times.input += clock.lap();
    return batch;
  }

  void finish_step(const Tensor& loss, int64_t examples) {
    check_restored();
    TrainingProgress& progress = impl_.progress;
    TrainerImpl::Totals& totals = place_.totals;
    totals.add(loss, examples);
    progress.examples = totals.examples;
    ++progress.step;
    ++progress.step_of_epoch;
    if (progress.step_of_epoch % options_.steps_per_execution == 0) return end_execution();
    look_for_signals();
  }

  // Called after a step that no exchange of callbacks follows. Workers then ask each other about
  // twice a second whether one of them was asked to end: asking after each step would make short
  // steps slower. The number of steps until the next question comes from the chief's time, so that
  // all workers ask after the same step.
  void look_for_signals() {
    if (!end_signals_ || !is_in_lockstep() || --steps_to_look_ > 0) return;
    const auto chiefs_ms =
        trainer_.is_chief()
            ? int64_t{std::chrono::floor<std::chrono::milliseconds>(since_look_.lap()).count()}
            : int64_t{0};
    const std::vector<int64_t> sums =
        impl_.strategy.extended().sum_numbers({EndSignals::received() != 0 ? 1 : 0, chiefs_ms},
                                              "Trainer: workers that were asked to end, the "
                                              "chief's milliseconds since the last exchange");
    leaving_ = sums[0] > 0;
    const int64_t fitting = steps_per_look_ * kLookForSignalsMs / std::max<int64_t>(sums[1], 1);
    steps_per_look_ = std::clamp<int64_t>(fitting, 1, 2 * steps_per_look_);
    steps_to_look_ = steps_per_look_;
  }

  // Called after FitOptions::steps_per_execution steps and at the end of an epoch.
  void end_execution() {
    const TrainerImpl::Totals& totals = place_.totals;
    // Metrics are read after the epoch: where workers share them, a read is a step of its own.
    const Logs so_far = {{"loss", totals.loss / static_cast<double>(totals.examples)}};
    call([&](Callback& callback) { callback.on_step_end(trainer_, so_far); });
  }

  // Called after each step of the validation, before which the state was saved.
  void leave_validation() {
    if (!end_signals_) return;
    if (++validation_steps_ % options_.steps_per_execution == 0) {
      together([] {});
    } else {
      look_for_signals();
    }
    if (leaving_ || is_asked_alone()) end_if_asked();
  }

  // The chief's figures of the epoch, on all workers.
  Logs epoch_logs() {
    Logs logs = impl_.logs(place_.totals);
    if (options_.validation) {
      validation_steps_ = 0;
      const Logs found = impl_.evaluate(*options_.validation, [this] { leave_validation(); });
      for (const auto& [name, value] : found) logs["val_" + name] = value;
    }
    // Callbacks decide by these figures, and workers may see different values of a program's
    // metric.
    const std::vector<uint8_t> own = nlohmann::json::to_msgpack(logs);
    const std::string chiefs = impl_.strategy.extended().gather_from_workers(
        {own.begin(), own.end()}, "Trainer: the figures of an epoch")[0];
    return nlohmann::json::from_msgpack(chiefs).get<Logs>();
  }

  void end_epoch() {
    if (place_.totals.examples == 0 && stopping_) {  // before its first step
      --impl_.progress.epoch;
      return;
    }
    if (place_.totals.examples == 0) refuse_empty("fit");
    impl_.progress.steps_per_epoch = impl_.progress.step_of_epoch;
    const Logs logs = epoch_logs();
    check_restored();
    history_.epochs.push_back(logs);
    call([&](Callback& callback) { callback.on_epoch_end(trainer_, logs); });
    backup_.save(
        [&]() -> Backup::Place {
          return {.position = options_.steps_per_epoch ? input_->save() : "",
                  .walks = place_.walks,
                  .ended = true};
        },
        history_);
    saved_step_ = impl_.progress.step;
    end_if_asked();
  }

  // Throws Aborted when variables went back to the last backup without this loop.
  void check_restored() const {
    if (!impl_.runner->has_restored()) return;
    raise(Code::Aborted,
          "[Trainer] a parameter server was started again without its variables; all variables now "
          "have their values of the last backup");
  }

  // Before the backup, which frees its directory before ~EndSignals() may end the process.
  std::optional<EndSignals> end_signals_;
  Trainer& trainer_;
  TrainerImpl& impl_;
  const FitOptions& options_;
  const data::Dataset dataset_;
  const DistributedDataset batches_;
  Backup backup_;
  Callbacks callbacks_;
  History history_;
  Backup::Place place_;  // where the running epoch is
  std::optional<DistributedIterator> input_;
  int64_t saved_step_ = 0;         // of the last backup
  int64_t validation_steps_ = 0;   // of the running validation
  bool stopping_ = false;          // on all workers
  bool callback_stopped_ = false;  // on this worker, since the last resume()
  bool leaving_ = false;           // a worker was asked to end
  Stopwatch since_look_;           // of look_for_signals()
  int64_t steps_per_look_ = 1;     // the same on all workers, as the next
  int64_t steps_to_look_ = 1;
};

}  // namespace

History fit(Trainer& trainer, TrainerImpl& impl, const data::Dataset& dataset,
            const FitOptions& options) {
  return Fit(trainer, impl, dataset, options).run();
}

}  // namespace cohort::internal
