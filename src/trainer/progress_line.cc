#include "trainer/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace cohort::internal {
namespace {

constexpr int kBarWidth = 20;

std::string bar_text(const TrainingProgress& progress) {
  if (!progress.steps_per_epoch) return "";
  const int64_t steps = std::max<int64_t>(*progress.steps_per_epoch, 1);
  const auto full =
      static_cast<size_t>(kBarWidth * std::min(progress.step_of_epoch, steps) / steps);
  return fmt::format(" [{:{}}]", std::string(full, '='), kBarWidth);
}

std::string time_left_text(const TrainingProgress& progress, double seconds) {
  if (!progress.steps_per_epoch || progress.step_of_epoch == 0) return "";
  const double left = seconds / static_cast<double>(progress.step_of_epoch) *
                      static_cast<double>(*progress.steps_per_epoch - progress.step_of_epoch);
  if (left < 0.5) return "";
  return left < 90 ? fmt::format("  {:.0f} s left", left)
                   : fmt::format("  {:.0f} min left", left / 60);
}

std::string times_text(const StepTimes& times) {
  if (times.total() <= 0) return "";
  return fmt::format("  input {:.0f} %  compute {:.0f} %  update {:.0f} %",
                     100 * times.input / times.total(), 100 * times.compute / times.total(),
                     100 * times.update / times.total());
}

}  // namespace

std::string progress_text(const TrainingProgress& progress, const Logs& logs, double seconds) {
  std::string text = fmt::format("epoch {}/{}{} step {}", progress.epoch, progress.epochs,
                                 bar_text(progress), progress.step);
  for (const auto& [name, value] : logs) text += fmt::format("  {} {:.4g}", name, value);
  if (seconds > 0) {
    text += fmt::format("  {:.0f} examples/s", static_cast<double>(progress.examples) / seconds);
  }
  return text + time_left_text(progress, seconds) + times_text(progress.times);
}

ProgressLine::ProgressLine() : terminal_(isatty(STDOUT_FILENO) == 1) {}

void ProgressLine::on_fit_begin(Trainer& trainer) { on_epoch_begin(trainer); }

void ProgressLine::on_epoch_begin(Trainer&) {
  began_ = shown_ = Clock::now();
  quarter_ = 0;
}

bool ProgressLine::is_due(const TrainingProgress& progress) {
  if (terminal_) {
    const auto now = Clock::now();
    if (now - shown_ < std::chrono::milliseconds(100)) return false;
    shown_ = now;
    return true;
  }
  if (!progress.steps_per_epoch || *progress.steps_per_epoch == 0) return false;
  const int64_t quarter = 4 * progress.step_of_epoch / *progress.steps_per_epoch;
  return std::exchange(quarter_, quarter) != quarter && quarter < 4;
}

void ProgressLine::on_step_end(Trainer& trainer, const Logs& so_far) {
  if (is_due(trainer.progress())) print(trainer.progress(), so_far, false);
}

void ProgressLine::on_epoch_end(Trainer& trainer, const Logs& logs) {
  print(trainer.progress(), logs, true);
}

void ProgressLine::print(const TrainingProgress& progress, const Logs& logs, bool last) {
  const std::chrono::duration<double> seconds = Clock::now() - began_;
  const std::string text = progress_text(progress, logs, seconds.count());
  if (terminal_) {
    // What is left of a longer line before is written over.
    fmt::print("\r{:{}}{}", text, length_, last ? "\n" : "");
    length_ = last ? 0 : static_cast<int64_t>(text.size());
  } else {
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

}  // namespace cohort::internal
