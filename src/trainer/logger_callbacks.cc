// The callbacks that write figures into files: CsvLogger and TensorBoard.

#include <fmt/ranges.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "base/raise.h"
#include "base/read_file.h"
#include "cohort/callbacks.h"
#include "cohort/summary.h"

namespace cohort {
namespace {

void check_columns(const std::string& path, const std::string& text, const std::string& header) {
  const std::string present = text.substr(0, text.find('\n'));
  if (present == header) return;
  internal::raise(
      Code::InvalidArgument,
      "[CsvLogger] '{}' has the columns '{}', and this training has '{}'; choose another "
      "file",
      path, present, header);
}

// How much of the text stays when this epoch's line is written again. A line that was cut short
// goes, and so does a last line of the same epoch.
size_t kept_size(const std::string& text, int epoch) {
  const size_t end = text.rfind('\n') + 1;
  if (end < 2) return end;
  const size_t last = text.rfind('\n', end - 2) + 1;
  return text.substr(last).starts_with(fmt::format("{},", epoch)) ? last : end;
}

class CsvLoggerImpl : public Callback {
 public:
  explicit CsvLoggerImpl(std::string path) : path_(std::move(path)) {}
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void restore(const std::string& /*saved*/) override { restored_ = true; }

 private:
  const std::string path_;
  bool restored_ = false;  // since then no line was written
};

void CsvLoggerImpl::on_epoch_end(Trainer& trainer, const Logs& logs) {
  if (!trainer.is_chief()) return;
  const int epoch = trainer.progress().epoch;
  std::string header = "epoch";
  std::string line = std::to_string(epoch);
  for (const auto& [name, value] : logs) {
    header += ',' + name;
    line += fmt::format(",{}", value);
  }
  std::string text = internal::read_file(path_).value_or("");
  if (std::exchange(restored_, false)) {
    text.resize(kept_size(text, epoch));
    std::error_code missing;
    std::filesystem::resize_file(path_, text.size(), missing);
  }
  if (!text.empty()) check_columns(path_, text, header);
  std::ofstream file(path_, std::ios::app);
  if (text.empty()) file << header << '\n';
  file << line << '\n' << std::flush;
  if (!file) {
    internal::raise(Code::PermissionDenied, "[CsvLogger] cannot write '{}': {}", path_,
                    std::strerror(errno));
  }
}

class TensorBoardImpl : public Callback {
 public:
  explicit TensorBoardImpl(const TensorBoardOptions& options);
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const Logs& so_far) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;
  void on_fit_end(Trainer& trainer) override;
  void restore(const std::string& saved) override;

 private:
  void add(const std::string& prefix, const Logs& logs, int64_t step);

  const TensorBoardOptions options_;
  std::unique_ptr<SummaryWriter> writer_;  // on the chief only
  int64_t step_seen_ = 0;                  // the step of the last call
  int64_t examples_before_ = 0;            // of the running epoch, before this process resumed it
  bool restored_ = false;                  // since then fit() has not begun
};

TensorBoardImpl::TensorBoardImpl(const TensorBoardOptions& options) : options_(options) {
  if (options.directory.empty()) {
    internal::raise(Code::InvalidArgument, "[TensorBoard] .directory must be given");
  }
  if (options.every_steps && *options.every_steps < 1) {
    internal::raise(
        Code::InvalidArgument,
        "[TensorBoard] every_steps must be at least 1, got {}; leave it empty to record "
        "only after epochs",
        *options.every_steps);
  }
}

void TensorBoardImpl::on_fit_begin(Trainer& trainer) {
  SummaryWriterOptions options;
  if (std::exchange(restored_, false)) options.purge_step = trainer.progress().step + 1;
  if (trainer.is_chief()) writer_ = std::make_unique<SummaryWriter>(options_.directory, options);
  step_seen_ = trainer.progress().step;
  on_epoch_begin(trainer);
}

void TensorBoardImpl::on_epoch_begin(Trainer& trainer) {
  examples_before_ = trainer.progress().examples;
}

void TensorBoardImpl::on_step_end(Trainer& trainer, const Logs& so_far) {
  const TrainingProgress& progress = trainer.progress();
  if (!options_.every_steps) return;
  // One call may be for several steps.
  const int64_t before = std::exchange(step_seen_, progress.step);
  if (progress.step / *options_.every_steps == before / *options_.every_steps) return;
  Logs logs = so_far;
  logs["examples_per_second"] = static_cast<double>(progress.examples - examples_before_) /
                                std::chrono::duration<double>(progress.times.total()).count();
  logs["learning_rate"] = trainer.optimizer().learning_rate().to<double>();
  add("step/", logs, progress.step);
}

void TensorBoardImpl::on_epoch_end(Trainer& trainer, const Logs& logs) {
  Logs all = logs;
  all["learning_rate"] = trainer.optimizer().learning_rate().to<double>();
  add("epoch/", all, trainer.progress().epoch);
}

void TensorBoardImpl::on_fit_end(Trainer&) { writer_.reset(); }

void TensorBoardImpl::restore(const std::string& /*saved*/) { restored_ = true; }

void TensorBoardImpl::add(const std::string& prefix, const Logs& logs, int64_t step) {
  if (!writer_) return;
  for (const auto& [name, value] : logs) writer_->add_scalar(prefix + name, value, step);
}

}  // namespace

CsvLogger::CsvLogger(std::string path)
    : DelegatingCallback(std::make_unique<CsvLoggerImpl>(std::move(path))) {}

TensorBoard::TensorBoard(const TensorBoardOptions& options)
    : DelegatingCallback(std::make_unique<TensorBoardImpl>(options)) {}

}  // namespace cohort
