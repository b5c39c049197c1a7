#include "trainer/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
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

std::string time_left_text(const TrainingProgress& progress, const Pace& pace) {
  const int64_t made = progress.step_of_epoch - pace.steps_before;
  if (!progress.steps_per_epoch || made <= 0) return "";
  const double left = pace.seconds / static_cast<double>(made) *
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

// 0: not known.
size_t terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

std::string progress_text(const TrainingProgress& progress, const Logs& logs, const Pace& pace) {
  std::string text = fmt::format("epoch {}/{}{} step {}", progress.epoch, progress.epochs,
                                 bar_text(progress), progress.step);
  for (const auto& [name, value] : logs) text += fmt::format("  {} {:.4g}", name, value);
  if (pace.seconds > 0) {
    const int64_t made = progress.examples - pace.examples_before;
    text += fmt::format("  {:.0f} examples/s", static_cast<double>(made) / pace.seconds);
  }
  return text + time_left_text(progress, pace) + times_text(progress.times);
}

std::string over_line(const std::string& text, size_t length, size_t columns) {
  const size_t room = columns == 0 ? std::string::npos : columns - 1;
  return fmt::format("\r{:{}}", text.substr(0, room), std::min(length, room));
}

ProgressLine::ProgressLine() : terminal_(isatty(STDOUT_FILENO) == 1) {}

void ProgressLine::on_fit_begin(Trainer& trainer) { on_epoch_begin(trainer); }

void ProgressLine::on_epoch_begin(Trainer& trainer) {
  const TrainingProgress& progress = trainer.progress();
  pace_ = {
      .seconds = 0, .steps_before = progress.step_of_epoch, .examples_before = progress.examples};
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
  pace_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  const std::string text = progress_text(progress, logs, pace_);
  if (!terminal_) {
    std::printf("%s\n", text.c_str());
  } else if (last) {  // it may take several rows
    std::printf("%s\n", over_line(text, length_, 0).c_str());
    length_ = 0;
  } else {
    const std::string line = over_line(text, length_, terminal_columns());
    std::printf("%s", line.c_str());
    length_ = line.size() - 1;
  }
  std::fflush(stdout);  // where nobody reads it, the training goes on
}

}  // namespace cohort::internal
