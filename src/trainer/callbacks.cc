// The callbacks that follow a figure, set the learning rate, or call functions.

#include "cohort/callbacks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/log.h"
#include "base/raise.h"
#include "data/iterator_position.h"

namespace cohort {
namespace internal {
namespace {

// The numbers that a callback keeps, as text without loss: "0.25 3".
std::string save_numbers(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += fmt::format("{} ", number);
  return text;
}

std::vector<double> restore_numbers(std::string_view callback, const std::string& saved,
                                    size_t count) {
  std::vector<double> numbers;
  const char* at = saved.data();
  const char* end = at + saved.size();
  while (at < end && numbers.size() < count) {
    const auto [next, failed] = std::from_chars(at, end, numbers.emplace_back());
    if (failed != std::errc()) break;
    at = next + 1;
  }
  if (numbers.size() == count && at == end) return numbers;
  raise(Code::DataLoss,
        "[{}] the saved state '{}' does not belong to this callback; give fit() the callbacks in "
        "the order of the backup",
        callback, saved);
}

bool is_larger_better(const std::string& figure, MonitorMode mode) {
  if (mode != MonitorMode::Auto) return mode == MonitorMode::Max;
  return figure.find("accuracy") != std::string::npos || figure.find("auc") != std::string::npos;
}

// Monitor follows one figure of the logs.
class Monitor {
 public:
  Monitor(std::string callback, std::string figure, MonitorMode mode, double min_delta);
  // Whether the figure is better than every earlier value by more than min_delta. Throws
  // InvalidArgument, which lists the existing figures, if the figure does not exist.
  bool improved(const Logs& logs);
  double best() const { return best_; }
  void set_best(double best) { best_ = best; }
  void forget() { best_ = worst(); }
  const std::string& figure() const { return figure_; }

 private:
  double worst() const;  // every value is better than this one

  std::string callback_;
  std::string figure_;
  bool larger_is_better_;
  double min_delta_;
  double best_;
};

Monitor::Monitor(std::string callback, std::string figure, MonitorMode mode, double min_delta)
    : callback_(std::move(callback)),
      figure_(std::move(figure)),
      larger_is_better_(is_larger_better(figure_, mode)),
      min_delta_(min_delta),
      best_(worst()) {}

double Monitor::worst() const {
  return larger_is_better_ ? -std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::infinity();
}

bool Monitor::improved(const Logs& logs) {
  const auto found = logs.find(figure_);
  if (found == logs.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : logs) names.push_back(name);
    raise(Code::InvalidArgument,
          "[{}] there is no figure '{}' to monitor; the figures are {}. Figures of a validation "
          "need FitOptions::validation",
          callback_, figure_, fmt::join(names, ", "));
  }
  const double value = found->second;
  const bool better = larger_is_better_ ? value > best_ + min_delta_ : value < best_ - min_delta_;
  if (better) best_ = value;
  return better;
}

}  // namespace

DelegatingCallback::DelegatingCallback(std::unique_ptr<Callback> callback)
    : callback_(std::move(callback)) {}

void DelegatingCallback::on_fit_begin(Trainer& trainer) { callback_->on_fit_begin(trainer); }

void DelegatingCallback::on_epoch_begin(Trainer& trainer) { callback_->on_epoch_begin(trainer); }

void DelegatingCallback::on_step_end(Trainer& trainer, const Logs& so_far) {
  callback_->on_step_end(trainer, so_far);
}

void DelegatingCallback::on_epoch_end(Trainer& trainer, const Logs& logs) {
  callback_->on_epoch_end(trainer, logs);
}

void DelegatingCallback::on_fit_end(Trainer& trainer) { callback_->on_fit_end(trainer); }

std::string DelegatingCallback::save() const { return callback_->save(); }

void DelegatingCallback::restore(const std::string& saved) { callback_->restore(saved); }

}  // namespace internal

using internal::raise;
using internal::restore_numbers;
using internal::save_numbers;

namespace {

// A tensor that was read never changes, so the values need no copies.
std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.read_value());
  return values;
}

double rate_of(const Trainer& trainer) { return trainer.optimizer().learning_rate().to<double>(); }

class ModelCheckpointImpl : public Callback {
 public:
  explicit ModelCheckpointImpl(const ModelCheckpointOptions& options);
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  const ModelCheckpointOptions options_;
  internal::Monitor monitor_;
};

ModelCheckpointImpl::ModelCheckpointImpl(const ModelCheckpointOptions& options)
    : options_(options), monitor_("ModelCheckpoint", options.monitor, options.mode, 0) {
  if (!options.directory.empty()) return;
  raise(Code::InvalidArgument, "[ModelCheckpoint] .directory must be given");
}

void ModelCheckpointImpl::on_epoch_end(Trainer& trainer, const Logs& logs) {
  const bool best = options_.keep_best && monitor_.improved(logs);
  Checkpoint checkpoint = trainer.checkpoint();
  if (options_.keep_last) checkpoint.write(options_.directory + "/last");
  if (best) checkpoint.write(options_.directory + "/best");
}

std::string ModelCheckpointImpl::save() const { return save_numbers({monitor_.best()}); }

void ModelCheckpointImpl::restore(const std::string& saved) {
  monitor_.set_best(restore_numbers("ModelCheckpoint", saved, 1)[0]);
}

class EarlyStoppingImpl : public Callback {
 public:
  explicit EarlyStoppingImpl(const EarlyStoppingOptions& options);
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void on_fit_end(Trainer& trainer) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  bool is_enough() const { return waited_ > 0 && waited_ >= options_.patience; }

  const EarlyStoppingOptions options_;
  internal::Monitor monitor_;
  int waited_ = 0;
  std::vector<Tensor> best_;  // of the model's variables; empty if they will not be restored
  bool restored_ = false;     // since then fit() has not begun
};

EarlyStoppingImpl::EarlyStoppingImpl(const EarlyStoppingOptions& options)
    : options_(options),
      monitor_("EarlyStopping", options.monitor, options.mode, options.min_delta) {}

void EarlyStoppingImpl::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {
    monitor_.forget();
    waited_ = 0;
    best_.clear();
  } else if (is_enough()) {
    trainer.stop();
  }
}

void EarlyStoppingImpl::on_epoch_end(Trainer& trainer, const Logs& logs) {
  const bool improved = monitor_.improved(logs);
  waited_ = improved ? 0 : waited_ + 1;
  if (improved && options_.restore_best_weights) best_ = values_of(trainer.variables());
  if (!is_enough()) return;
  internal::log_info("[EarlyStopping] {} has not been better than {} for {} epochs",
                     monitor_.figure(), monitor_.best(), waited_);
  trainer.stop();
}

void EarlyStoppingImpl::on_fit_end(Trainer& trainer) {
  if (best_.empty() || waited_ == 0) return;
  std::vector<Variable> variables = trainer.variables();
  if (variables.size() != best_.size()) {
    raise(Code::FailedPrecondition,
          "[EarlyStopping] the model has {} variables, but had {} after its best epoch; "
          "restore_best_weights needs a model that stays the same",
          variables.size(), best_.size());
  }
  for (size_t i = 0; i < variables.size(); ++i) variables[i].assign(best_[i]);
}

// The text is a line of numbers and then the tensors.
std::string EarlyStoppingImpl::save() const {
  data::internal::StateWriter weights;
  for (const Tensor& value : best_) weights.tensor(value);
  return save_numbers({monitor_.best(), static_cast<double>(waited_)}) + "\n" + weights.bytes();
}

void EarlyStoppingImpl::restore(const std::string& saved) {
  const size_t line = std::min(saved.find('\n'), saved.size());
  const std::vector<double> numbers = restore_numbers("EarlyStopping", saved.substr(0, line), 2);
  monitor_.set_best(numbers[0]);
  waited_ = static_cast<int>(numbers[1]);
  best_.clear();
  data::internal::StateReader weights(
      std::string_view(saved).substr(line).substr(line < saved.size() ? 1 : 0));
  while (!weights.at_end()) best_.push_back(weights.tensor());
  restored_ = true;
}

class LearningRateSchedulerImpl : public Callback {
 public:
  explicit LearningRateSchedulerImpl(std::function<double(int epoch, double rate)> rate);
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  const std::function<double(int, double)> rate_;
  double set_ = std::numeric_limits<double>::quiet_NaN();  // the current rate
  bool restored_ = false;                                  // since then fit() has not begun
};

LearningRateSchedulerImpl::LearningRateSchedulerImpl(
    std::function<double(int epoch, double rate)> rate)
    : rate_(std::move(rate)) {}

void LearningRateSchedulerImpl::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {
    set_ = rate_of(trainer);
  } else if (set_ != rate_of(trainer)) {
    trainer.optimizer().set_learning_rate(set_);
  }
}

void LearningRateSchedulerImpl::on_epoch_begin(Trainer& trainer) {
  const double now = rate_of(trainer);
  const double rate = rate_(trainer.progress().epoch, now);
  if (!(rate >= 0)) {
    raise(Code::InvalidArgument,
          "[LearningRateScheduler] expected a rate of at least 0 for epoch {}, got {}",
          trainer.progress().epoch, rate);
  }
  set_ = rate;
  if (rate != now) trainer.optimizer().set_learning_rate(rate);
}

std::string LearningRateSchedulerImpl::save() const { return save_numbers({set_}); }

void LearningRateSchedulerImpl::restore(const std::string& saved) {
  set_ = restore_numbers("LearningRateScheduler", saved, 1)[0];
  restored_ = true;
}

class ReduceOnPlateauImpl : public Callback {
 public:
  explicit ReduceOnPlateauImpl(const ReduceOnPlateauOptions& options);
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  std::string save() const override;
  void restore(const std::string& saved) override;

 private:
  const ReduceOnPlateauOptions options_;
  internal::Monitor monitor_;
  int waited_ = 0;
  double rate_ = std::numeric_limits<double>::quiet_NaN();    // the last rate set here, if any
  double before_ = std::numeric_limits<double>::quiet_NaN();  // the rate before its changes
  bool restored_ = false;                                     // since then fit() has not begun
};

ReduceOnPlateauImpl::ReduceOnPlateauImpl(const ReduceOnPlateauOptions& options)
    : options_(options),
      monitor_("ReduceOnPlateau", options.monitor, options.mode, options.min_delta) {}

void ReduceOnPlateauImpl::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {  // another training
    monitor_.forget();
    waited_ = 0;
    rate_ = before_ = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  // This process may have lowered the rate after the backup that it goes on from.
  const double rate = std::isnan(rate_) ? before_ : rate_;
  if (!std::isnan(rate)) trainer.optimizer().set_learning_rate(rate);
}

void ReduceOnPlateauImpl::on_epoch_end(Trainer& trainer, const Logs& logs) {
  waited_ = monitor_.improved(logs) ? 0 : waited_ + 1;
  if (waited_ == 0 || waited_ < options_.patience) return;
  waited_ = 0;
  const double now = rate_of(trainer);
  if (std::isnan(before_)) before_ = now;
  rate_ = std::max(now * options_.factor, options_.min_rate);
  internal::log_info("[ReduceOnPlateau] learning rate {} -> {}", now, rate_);
  trainer.optimizer().set_learning_rate(rate_);
}

std::string ReduceOnPlateauImpl::save() const {
  return save_numbers({monitor_.best(), static_cast<double>(waited_), rate_});
}

void ReduceOnPlateauImpl::restore(const std::string& saved) {
  const std::vector<double> numbers = restore_numbers("ReduceOnPlateau", saved, 3);
  monitor_.set_best(numbers[0]);
  waited_ = static_cast<int>(numbers[1]);
  rate_ = numbers[2];
  restored_ = true;
}

class LambdaCallbackImpl : public Callback {
 public:
  explicit LambdaCallbackImpl(LambdaCallbacks functions) : functions_(std::move(functions)) {}
  void on_fit_begin(Trainer& trainer) override {
    if (functions_.on_fit_begin) functions_.on_fit_begin(trainer);
  }
  void on_epoch_begin(Trainer& trainer) override {
    if (functions_.on_epoch_begin) functions_.on_epoch_begin(trainer);
  }
  void on_step_end(Trainer& trainer, const Logs& so_far) override {
    if (functions_.on_step_end) functions_.on_step_end(trainer, so_far);
  }
  void on_epoch_end(Trainer& trainer, const Logs& logs) override {
    if (functions_.on_epoch_end) functions_.on_epoch_end(trainer, logs);
  }
  void on_fit_end(Trainer& trainer) override {
    if (functions_.on_fit_end) functions_.on_fit_end(trainer);
  }

 private:
  const LambdaCallbacks functions_;
};

}  // namespace

ModelCheckpoint::ModelCheckpoint(const ModelCheckpointOptions& options)
    : DelegatingCallback(std::make_unique<ModelCheckpointImpl>(options)) {}

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : DelegatingCallback(std::make_unique<EarlyStoppingImpl>(options)) {}

LearningRateScheduler::LearningRateScheduler(std::function<double(int epoch, double rate)> rate)
    : DelegatingCallback(std::make_unique<LearningRateSchedulerImpl>(std::move(rate))) {}

ReduceOnPlateau::ReduceOnPlateau(const ReduceOnPlateauOptions& options)
    : DelegatingCallback(std::make_unique<ReduceOnPlateauImpl>(options)) {}

LambdaCallback::LambdaCallback(LambdaCallbacks functions)
    : DelegatingCallback(std::make_unique<LambdaCallbackImpl>(std::move(functions))) {}

}  // namespace cohort
