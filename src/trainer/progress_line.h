#pragma once

#include <chrono>
#include <string>

#include "cohort/trainer.h"

namespace cohort::internal {

// How long this process has run the epoch and fit(), and how much of both was done before.
struct Pace {
  double seconds = 0;
  int64_t examples_before = 0;
  double fit_seconds = 0;
  int64_t fit_steps_before = 0;
};

// "epoch 2/5 [=====     ] step 355  loss 0.31  12 s left  91,000 examples/s  input 1 % ..." The
// time left is that of all epochs.
std::string progress_text(const TrainingProgress& progress, const Logs& logs, const Pace& pace);

// The text that replaces a line of `length` on a terminal of `columns` (0: not known). It takes at
// most one row, because the next text could not overwrite more.
std::string over_line(const std::string& text, size_t length, size_t columns);

// Shows the progress on standard output: on a terminal it rewrites the line in place, elsewhere it
// prints a new line every few seconds. The last line of an epoch always appears. Where a launcher
// watches this process, the launcher gets the lines and standard output only the last line of each
// epoch.
class ProgressLine : public Callback {
 public:
  // `shown` is false where the line is for `cohort status` only.
  explicit ProgressLine(bool shown);
  ~ProgressLine() override;
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const Logs& so_far) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::string text(const TrainingProgress& progress, const Logs& logs);
  void print_over(const std::string& line);
  void print_line(const std::string& line);

  const bool shown_;
  const bool terminal_;  // this process writes on a terminal
  const bool watched_;
  Clock::time_point fit_began_;
  Clock::time_point began_;
  Clock::time_point last_;  // when the line was last shown
  Pace pace_;
  size_t length_ = 0;  // of the line that is on the terminal
};

}  // namespace cohort::internal
