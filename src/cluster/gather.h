#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/task_directory.h"

namespace cohort::internal {

// Work with several tasks at the same time, and who is missing.
struct Gathering {
  std::string what;  // "Session", for messages
  Deadline deadline;
  std::function<void(const std::string&)> notice;  // told every few seconds what is waited for
};

// Runs body(i, link to tasks[i]) for all tasks beside one another. A task that cannot be reached is
// tried again until the deadline. Throws, when all have ended, the failures as one: Unavailable,
// naming each task and why, when tasks were not there; else with the code of the first.
void with_tasks(const TaskDirectory& directory, const std::vector<std::string>& tasks,
                const Gathering& gathering,
                const std::function<void(size_t, const Link::Pointer&)>& body);

}  // namespace cohort::internal
