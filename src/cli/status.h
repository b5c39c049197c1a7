#pragma once

#include <chrono>
#include <string>

#include "cli/known_tasks.h"

namespace cohort::cli {

// A table with a line for each task: whether it answers, its steps; in the time between two askings
// those per second, its traffic, and the shares of it that went to getting input and to meetings
// with other tasks. Then, a line each, whom it has waited for for long, and how far its training
// is.
std::string status_table(const std::vector<AskedTask>& before, const std::vector<AskedTask>& now,
                         double seconds);

struct StatusOptions {
  std::vector<std::string> addresses = {};
  std::string credentials = {};
  bool watch = false;  // again and again, until it is interrupted
  std::chrono::milliseconds interval{1'000};
};
// Returns the exit code: 0 when all answered.
int show_status(const StatusOptions& options);

}  // namespace cohort::cli
