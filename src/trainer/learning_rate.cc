#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/callbacks.h"
#include "trainer/saved_numbers.h"

namespace cohort {
namespace {

double rate_of(const Trainer& trainer) { return trainer.optimizer().learning_rate().to<double>(); }

}  // namespace

LearningRateScheduler::LearningRateScheduler(std::function<double(int epoch, double rate)> rate)
    : rate_(std::move(rate)) {}

void LearningRateScheduler::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {
    set_ = rate_of(trainer);
  } else if (set_ != rate_of(trainer)) {
    trainer.optimizer().set_learning_rate(set_);
  }
}

void LearningRateScheduler::on_epoch_begin(Trainer& trainer) {
  const double now = rate_of(trainer);
  const double rate = rate_(trainer.progress().epoch, now);
  if (!(rate >= 0)) {
    internal::raise(Code::InvalidArgument,
                    "[LearningRateScheduler] expected a rate of at least 0 for epoch {}, got {}",
                    trainer.progress().epoch, rate);
  }
  set_ = rate;
  if (rate != now) trainer.optimizer().set_learning_rate(rate);
}

std::string LearningRateScheduler::save() const { return internal::save_numbers({set_}); }

void LearningRateScheduler::restore(const std::string& saved) {
  set_ = internal::restore_numbers("LearningRateScheduler", saved, 1)[0];
  restored_ = true;
}

ReduceOnPlateau::ReduceOnPlateau(const ReduceOnPlateauOptions& options)
    : options_(options),
      monitor_("ReduceOnPlateau", options.monitor, options.mode, options.min_delta) {}

void ReduceOnPlateau::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {  // another training
    monitor_.forget();
    waited_ = 0;
    rate_ = before_ = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  // What this process has lowered since the backup that it goes on from is not lowered any more.
  const double rate = std::isnan(rate_) ? before_ : rate_;
  if (!std::isnan(rate)) trainer.optimizer().set_learning_rate(rate);
}

void ReduceOnPlateau::on_epoch_end(Trainer& trainer, const Logs& logs) {
  waited_ = monitor_.improved(logs) ? 0 : waited_ + 1;
  if (waited_ == 0 || waited_ < options_.patience) return;
  waited_ = 0;
  const double now = rate_of(trainer);
  if (std::isnan(before_)) before_ = now;
  rate_ = std::max(now * options_.factor, options_.min_rate);
  internal::log_info("[ReduceOnPlateau] learning rate {} -> {}", now, rate_);
  trainer.optimizer().set_learning_rate(rate_);
}

std::string ReduceOnPlateau::save() const {
  return internal::save_numbers({monitor_.best(), static_cast<double>(waited_), rate_});
}

void ReduceOnPlateau::restore(const std::string& saved) {
  const std::vector<double> numbers = internal::restore_numbers("ReduceOnPlateau", saved, 3);
  monitor_.set_best(numbers[0]);
  waited_ = static_cast<int>(numbers[1]);
  rate_ = numbers[2];
  restored_ = true;
}

}  // namespace cohort
