#pragma once

#include <chrono>
#include <string>

#include "cohort/trainer.h"

namespace cohort::internal {

// How long this process has run the epoch, and what was done of that before.
struct Pace {
  double seconds = 0;
  int64_t steps_before = 0;
  int64_t examples_before = 0;
};

// "epoch 2/5 [=====     ] step 355  loss 0.31  91,000 examples/s  12 s left  input 1 % ..."
std::string progress_text(const TrainingProgress& progress, const Logs& logs, const Pace& pace);

// What takes the place of a line of that length on a terminal of so many columns (0: not known):
// never more than one row, which the next one could not write over.
std::string over_line(const std::string& text, size_t length, size_t columns);

// Shows that line on standard output: rewritten in place on a terminal, elsewhere one for each
// quarter of an epoch.
class ProgressLine : public Callback {
 public:
  ProgressLine();
  void on_fit_begin(Trainer& trainer) override;
  void on_epoch_begin(Trainer& trainer) override;
  void on_step_end(Trainer& trainer, const Logs& so_far) override;
  void on_epoch_end(Trainer& trainer, const Logs& logs) override;

 private:
  using Clock = std::chrono::steady_clock;
  // Whether it is worth a line now.
  bool is_due(const TrainingProgress& progress);
  void print(const TrainingProgress& progress, const Logs& logs, bool last);

  const bool terminal_;
  Clock::time_point began_;
  Clock::time_point shown_;
  Pace pace_;
  int64_t quarter_ = 0;
  size_t length_ = 0;  // of the line that is on the terminal
};

}  // namespace cohort::internal
