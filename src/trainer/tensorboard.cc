#include <utility>

#include "base/raise.h"
#include "cohort/callbacks.h"

namespace cohort {

TensorBoard::TensorBoard(const TensorBoardOptions& options) : options_(options) {
  if (!options.folder.empty()) return;
  internal::raise(Code::InvalidArgument, "[TensorBoard] .folder must be given");
}

void TensorBoard::on_fit_begin(Trainer& trainer) {
  SummaryWriterOptions options;
  if (std::exchange(restored_, false)) options.purge_step = trainer.progress().step + 1;
  if (trainer.is_chief()) writer_ = std::make_unique<SummaryWriter>(options_.folder, options);
  on_epoch_begin(trainer);
}

void TensorBoard::on_epoch_begin(Trainer& trainer) {
  examples_before_ = trainer.progress().examples;
}

void TensorBoard::on_step_end(Trainer& trainer, const Logs& so_far) {
  const TrainingProgress& progress = trainer.progress();
  if (options_.every_steps == 0 || progress.step % options_.every_steps != 0) return;
  Logs logs = so_far;
  logs["examples_per_second"] =
      static_cast<double>(progress.examples - examples_before_) / progress.times.total();
  logs["learning_rate"] = trainer.optimizer().learning_rate().to<double>();
  add("step/", logs, progress.step);
}

void TensorBoard::on_epoch_end(Trainer& trainer, const Logs& logs) {
  Logs all = logs;
  all["learning_rate"] = trainer.optimizer().learning_rate().to<double>();
  add("epoch/", all, trainer.progress().epoch);
}

void TensorBoard::on_fit_end(Trainer&) { writer_.reset(); }

void TensorBoard::restore(const std::string& /*saved*/) { restored_ = true; }

void TensorBoard::add(const std::string& prefix, const Logs& logs, int64_t step) {
  if (!writer_) return;
  for (const auto& [name, value] : logs) writer_->add_scalar(prefix + name, value, step);
}

}  // namespace cohort
