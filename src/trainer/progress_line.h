#pragma once

#include <memory>
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

// A callback that shows the progress on standard output: on a terminal it rewrites the line in
// place, elsewhere it prints a new line every few seconds. The last line of an epoch always
// appears. Where a launcher watches this process, the launcher gets the lines and standard output
// only the last line of each epoch. `shown` is false where the line is for `cohort status` only.
std::shared_ptr<Callback> make_progress_line(bool shown);

}  // namespace cohort::internal
