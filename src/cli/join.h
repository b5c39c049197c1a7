#pragma once

#include <string>

namespace cohort::cli {

struct JoinOptions {
  std::string launcher = {};  // where it waits: host:port
  std::string token = {};     // what it printed
  std::string name = {};      // by which it expects this machine
  std::string address = {};   // at which others reach the tasks here; empty: found out
};
// Takes part in a run until that is over; 0 then. Throws what prevents it, Unavailable when the
// launcher is lost: the tasks here are killed.
int join_run(const JoinOptions& options);

}  // namespace cohort::cli
