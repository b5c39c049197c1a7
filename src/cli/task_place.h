#pragma once

#include <string>
#include <vector>

#include "base/activity.h"

namespace cohort::cli {

// Where a task that runs is, and what it does there.
struct TaskPlace {
  std::string doing = {};    // "computes", "is stopped (SIGSTOP); kill -CONT 17 lets it go on"
  double input_seconds = 0;  // for how long it has been getting an element of a dataset
  // Of its main thread and, when that is idle, of one that is not or that makes input; innermost
  // first.
  std::vector<std::string> frames = {};
};

// Asks the process of that activity, whose crash report would be in that file. Takes up to some
// seconds, most of them for the names of functions. A process that does not answer, or has no crash
// report, has no frames.
TaskPlace find_place(const internal::Activity& activity, const std::string& crash_file);

}  // namespace cohort::cli
