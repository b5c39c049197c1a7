#pragma once

#include <string>

#include "cli/child.h"

namespace cohort::cli {

// What a task starts inherits its environment, also where it leaves the task's group of processes
// or becomes a daemon. So each task has a mark there, by which all of that is found again.

// Adds the mark of one task of the run that has this folder. A launcher that is itself a task of a
// run keeps the marks it has, and its tasks have them as well.
void add_mark(Environment& environment, const std::string& run_folder, const std::string& label);

// Kills whatever has the mark of this task; without a label, of any task of the run. Guards, which
// have their own work, are left.
void kill_marked(const std::string& run_folder, const std::string& label = "");

}  // namespace cohort::cli
