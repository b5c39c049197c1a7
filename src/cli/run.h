#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_plan.h"

namespace cohort::cli {

// A machine by the name that ssh knows, and how many tasks are to run there.
struct HostSlots {
  std::string host = {};
  int slots = 1;
};

struct RunOptions {
  Roles roles = {};
  std::vector<std::string> command = {};
  std::string strategy = {};  // that strategy_from_environment() gives; empty: by the roles
  std::map<std::string, int> max_restarts = {};  // by job
  std::chrono::milliseconds grace{5'000};
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;  // of each task
  std::string log_folder = {};                                // empty: in the run's own folder
  std::string trace = {};                                     // the file for it; empty: none
  double stall_seconds = 0;                                   // 0: as the tasks have it
  bool insecure = false;                                      // no certificates between the tasks
  // Several machines: those of `hosts`, where ssh starts `cohort join`, or so many that join by
  // themselves.
  std::vector<HostSlots> hosts = {};
  int nodes = 0;
  std::string listen = {};  // this machine as the others reach it; empty: found out
  std::string ssh = "ssh";  // or what behaves like it
  std::chrono::milliseconds join_limit{60'000};
};

// Runs all tasks on this machine until the run is over, and returns the exit code. Throws what
// prevents it from starting.
int run_here(const RunOptions& options);
// The same on several machines.
int run_on_nodes(const RunOptions& options);

}  // namespace cohort::cli
