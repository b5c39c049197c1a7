#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_layout.h"
#include "topology/hostfile.h"

namespace cohort::cli {

struct RunOptions {
  Roles roles = {};
  std::vector<std::string> command = {};
  std::string strategy = {};  // for strategy_from_environment(); empty: chosen by the roles
  std::map<std::string, int> max_restarts = {};  // by job
  std::chrono::milliseconds grace{5'000};
  std::optional<uint64_t> memory_limit_bytes = std::nullopt;  // of each task
  std::string log_directory = {};                             // empty: in the directory of the run
  std::string trace = {};                                     // the file to write; empty: none
  double stall_seconds = 0;                                   // 0: as the tasks have it
  bool insecure = false;                                      // no certificates between the tasks
  // For several machines: the hosts on which ssh starts `cohort join`, or how many machines join
  // without ssh.
  std::vector<internal::HostSlots> hosts = {};
  int machines = 0;
  std::string listen = {};  // the address of this machine for the others; empty: found out
  std::string ssh = "ssh";  // or a program that behaves like ssh
  std::chrono::milliseconds join_limit{60'000};
};

// Runs all tasks on this machine until the run is over, and returns the exit code. Throws if the
// run cannot start.
int run_here(const RunOptions& options);
// Runs the tasks on several machines, which join the run.
int run_on_machines(const RunOptions& options);

struct JoinOptions {
  std::string launcher = {};  // host:port
  std::string token = {};     // that the launcher printed
  std::string name = {};      // by which the launcher expects this machine
  std::string address = {};   // at which others reach the tasks here; empty: found out
};
// Takes part in the run of another machine until the run is over, and returns 0. Throws if it
// cannot join, and Unavailable if the launcher is lost: the tasks here are then killed.
int join_run(const JoinOptions& options);

}  // namespace cohort::cli
