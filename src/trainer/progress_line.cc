#include "trainer/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/activity.h"

namespace cohort::internal {
namespace {

constexpr int kBarWidth = 20;
constexpr std::chrono::milliseconds kRewritten{100};
constexpr std::chrono::seconds kNewLine{3};

double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

std::string bar_text(const TrainingProgress& progress) {
  if (!progress.steps_per_epoch) return "";
  const int64_t steps = std::max<int64_t>(*progress.steps_per_epoch, 1);
  const auto full =
      static_cast<size_t>(kBarWidth * std::min(progress.step_of_epoch, steps) / steps);
  return fmt::format(" [{:{}}]", std::string(full, '='), kBarWidth);
}

std::string time_left_text(const TrainingProgress& progress, const Pace& pace) {
  const int64_t made = progress.step - pace.fit_steps_before;
  if (!progress.steps_per_epoch || made <= 0) return "";
  const auto per_epoch = static_cast<double>(*progress.steps_per_epoch);
  const double steps = per_epoch * (progress.epochs - progress.epoch + 1) -
                       static_cast<double>(progress.step_of_epoch);
  const double left = pace.fit_seconds / static_cast<double>(made) * steps;
  if (left < 0.5) return "";
  if (left < 90) return fmt::format("  {:.0f} s left", left);
  if (left < 90 * 60) return fmt::format("  {:.0f} min left", left / 60);
  return fmt::format("  {:.1f} h left", left / 3600);
}

std::string times_text(const StepTimes& times) {
  if (times.total().count() <= 0) return "";
  const auto percent = [&](std::chrono::nanoseconds part) {
    return 100 * std::chrono::duration<double>(part) / times.total();
  };
  return fmt::format("  input {:.0f} %  compute {:.0f} %  update {:.0f} %", percent(times.input),
                     percent(times.compute), percent(times.update));
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
  text += time_left_text(progress, pace);
  if (pace.seconds > 0) {
    const int64_t made = progress.examples - pace.examples_before;
    text += fmt::format("  {:.0f} examples/s", static_cast<double>(made) / pace.seconds);
  }
  return text + times_text(progress.times);
}

std::string over_line(const std::string& text, size_t length, size_t columns) {
  const size_t room = columns == 0 ? std::string::npos : columns - 1;
  return fmt::format("\r{:{}}", text.substr(0, room), std::min(length, room));
}

namespace {

class ProgressLine : public Callback {
 public:
  explicit ProgressLine(bool shown)
      : shown_(shown), terminal_(shown && isatty(STDOUT_FILENO) == 1), watched_(is_watched()) {}
  ~ProgressLine() override {
    if (watched_) note_progress({});
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void on_fit_begin(Trainer& trainer) override {
    fit_began_ = last_ = Clock::now();
    pace_.fit_steps_before = trainer.progress().step;
    on_epoch_begin(trainer);
  }

  void on_epoch_begin(Trainer& trainer) override {
    pace_.examples_before = trainer.progress().examples;
    began_ = Clock::now();
  }

  void on_step_end(Trainer& trainer, const Logs& so_far) override {
    const bool in_place = terminal_ || watched_;
    const auto now = Clock::now();
    if (now - last_ < (in_place ? Clock::duration(kRewritten) : kNewLine)) return;
    last_ = now;
    const std::string line = text(trainer.progress(), so_far);
    if (watched_) note_progress({.text = line, .quiet = !shown_ || terminal_});
    if (terminal_) print_over(line);
    if (!in_place) print_line(line);
  }

  void on_epoch_end(Trainer& trainer, const Logs& logs) override {
    last_ = Clock::now();
    const std::string line = text(trainer.progress(), logs);
    if (watched_) note_progress({.text = line, .quiet = !shown_ || terminal_, .printed = shown_});
    if (shown_) print_line(line);
  }

 private:
  using Clock = std::chrono::steady_clock;

  std::string text(const TrainingProgress& progress, const Logs& logs) {
    pace_.seconds = seconds_since(began_);
    pace_.fit_seconds = seconds_since(fit_began_);
    return progress_text(progress, logs, pace_);
  }

  void print_over(const std::string& line) {
    const std::string over = over_line(line, length_, terminal_columns());
    std::printf("%s", over.c_str());
    // An error is ignored: the training goes on when no process reads the line.
    std::fflush(stdout);
    length_ = over.size() - 1;
  }

  // The line may take several rows of a terminal.
  void print_line(const std::string& line) {
    std::printf("%s\n", terminal_ ? over_line(line, length_, 0).c_str() : line.c_str());
    std::fflush(stdout);
    length_ = 0;
  }

  const bool shown_;
  const bool terminal_;  // this process writes on a terminal
  const bool watched_;
  Clock::time_point fit_began_;
  Clock::time_point began_;
  Clock::time_point last_;  // when the line was last shown
  Pace pace_;
  size_t length_ = 0;  // of the line that is on the terminal
};

}  // namespace

std::shared_ptr<Callback> make_progress_line(bool shown) {
  return std::make_shared<ProgressLine>(shown);
}

}  // namespace cohort::internal
