#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/callbacks.h"
#include "data/state.h"
#include "trainer/saved_numbers.h"

namespace cohort {

namespace {

// A value that was read never changes, so these need no copies.
std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.read_value());
  return values;
}

}  // namespace

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : options_(options),
      monitor_("EarlyStopping", options.monitor, options.mode, options.min_delta) {}

void EarlyStopping::on_fit_begin(Trainer& trainer) {
  if (!std::exchange(restored_, false)) {
    monitor_.forget();
    waited_ = 0;
    best_.clear();
  } else if (is_enough()) {
    trainer.stop();
  }
}

void EarlyStopping::on_epoch_end(Trainer& trainer, const Logs& logs) {
  const bool improved = monitor_.improved(logs);
  waited_ = improved ? 0 : waited_ + 1;
  if (improved && options_.restore_best_weights) best_ = values_of(trainer.variables());
  if (!is_enough()) return;
  internal::log_info("[EarlyStopping] {} has not been better than {} for {} epochs",
                     monitor_.figure(), monitor_.best(), waited_);
  trainer.stop();
}

void EarlyStopping::on_fit_end(Trainer& trainer) {
  if (best_.empty() || waited_ == 0) return;
  std::vector<Variable> variables = trainer.variables();
  if (variables.size() != best_.size()) {
    internal::raise(Code::FailedPrecondition,
                    "[EarlyStopping] the model has {} variables, but had {} after its best epoch; "
                    "restore_best_weights needs a model that stays the same",
                    variables.size(), best_.size());
  }
  for (size_t i = 0; i < variables.size(); ++i) variables[i].assign(best_[i]);
}

// A line of numbers, then the tensors.
std::string EarlyStopping::save() const {
  data::internal::StateWriter weights;
  for (const Tensor& value : best_) weights.tensor(value);
  return internal::save_numbers({monitor_.best(), static_cast<double>(waited_)}) + "\n" +
         weights.bytes();
}

void EarlyStopping::restore(const std::string& saved) {
  const size_t line = std::min(saved.find('\n'), saved.size());
  const std::vector<double> numbers =
      internal::restore_numbers("EarlyStopping", saved.substr(0, line), 2);
  monitor_.set_best(numbers[0]);
  waited_ = static_cast<int>(numbers[1]);
  best_.clear();
  data::internal::StateReader weights(
      std::string_view(saved).substr(line).substr(line < saved.size() ? 1 : 0));
  while (!weights.at_end()) best_.push_back(weights.tensor());
  restored_ = true;
}

}  // namespace cohort
