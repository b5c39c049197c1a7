#include <utility>

#include "base/log.h"
#include "cohort/callbacks.h"
#include "trainer/saved_numbers.h"

namespace cohort {

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : options_(options),
      monitor_("EarlyStopping", options.monitor, options.mode, options.min_delta) {}

void EarlyStopping::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {
    monitor_.forget();
    waited_ = 0;
  } else if (is_enough()) {
    trainer.stop();
  }
}

void EarlyStopping::on_epoch_end(Trainer& trainer, const Logs& logs) {
  waited_ = monitor_.improved(logs) ? 0 : waited_ + 1;
  if (!is_enough()) return;
  internal::log_info("[EarlyStopping] {} has not been better than {} for {} epochs",
                     monitor_.figure(), monitor_.best(), waited_);
  trainer.stop();
}

std::string EarlyStopping::save() const {
  return internal::save_numbers({monitor_.best(), static_cast<double>(waited_)});
}

void EarlyStopping::restore(const std::string& saved) {
  const std::vector<double> numbers = internal::restore_numbers("EarlyStopping", saved, 2);
  monitor_.set_best(numbers[0]);
  waited_ = static_cast<int>(numbers[1]);
  restored_ = true;
}

}  // namespace cohort
