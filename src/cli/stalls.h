#pragma once

#include <string>
#include <vector>

#include "base/activity.h"
#include "base/anybody.h"

namespace cohort::cli {

// A task of a run, by all that others may call it.
struct NamedTask {
  std::string label = {};      // "worker:0", for people
  std::string full_name = {};  // "/job:worker/replica:0/task:0"
  std::string address = {};
};

// Tasks that wait, and for whom in the end.
struct Stall {
  struct Waiter {
    size_t task = 0;
    std::string what = {};
    double seconds = 0;
  };
  std::vector<size_t> guilty = {};          // who does not wait for anybody itself
  std::vector<std::string> strangers = {};  // who is waited for and is no task of the run
  bool circle = false;                      // the guilty wait for each other
  std::vector<Waiter> waiting = {};
};

// Follows who waits for whom, from everybody who has waited for long: worker:0 for a parameter
// server, and that for worker:1. A parameter server at whose queue something is waited for waits
// for the workers that do not wait. One for each set of guilty tasks. `waits` has a place for each
// of the tasks.
std::vector<Stall> find_stalls(const std::vector<NamedTask>& tasks,
                               const std::vector<std::vector<internal::ActivityWait>>& waits);

}  // namespace cohort::cli
