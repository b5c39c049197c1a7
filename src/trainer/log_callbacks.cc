// The callbacks that write figures into files.

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/raise.h"
#include "cohort/callbacks.h"

namespace cohort {
namespace {

std::string text_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

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

}  // namespace

CsvLogger::CsvLogger(std::string path) : path_(std::move(path)) {}

void CsvLogger::on_epoch_end(Trainer& trainer, const Logs& logs) {
  if (!trainer.is_chief()) return;
  const int epoch = trainer.progress().epoch;
  std::string header = "epoch";
  std::string line = std::to_string(epoch);
  for (const auto& [name, value] : logs) {
    header += ',' + name;
    line += fmt::format(",{}", value);
  }
  std::string text = text_in(path_);
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

void CsvLogger::restore(const std::string& /*saved*/) { restored_ = true; }

TensorBoard::TensorBoard(const TensorBoardOptions& options) : options_(options) {
  if (!options.directory.empty()) return;
  internal::raise(Code::InvalidArgument, "[TensorBoard] .directory must be given");
}

void TensorBoard::on_fit_begin(Trainer& trainer) {
  SummaryWriterOptions options;
  if (std::exchange(restored_, false)) options.purge_step = trainer.progress().step + 1;
  if (trainer.is_chief()) writer_ = std::make_unique<SummaryWriter>(options_.directory, options);
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
