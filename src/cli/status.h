#pragma once

#include <chrono>
#include <string>

#include "launch/known_tasks.h"

namespace cohort::cli {

// A table with a line for each task: whether it answers, and its steps. Between two questions:
// steps per second, traffic, and the shares of the time for getting input and for waiting for other
// tasks. Below each task stand its long waits and its progress.
std::string status_table(const std::vector<AskedTask>& before, const std::vector<AskedTask>& now,
                         double seconds);

struct StatusOptions {
  std::vector<std::string> addresses = {};
  std::string credentials = {};
  bool watch = false;  // repeats until it is interrupted
  std::chrono::milliseconds interval{1'000};
};
// Returns the exit code: 0 if all tasks answered.
int show_status(const StatusOptions& options);

}  // namespace cohort::cli
