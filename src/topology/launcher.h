#pragma once

#include <string>
#include <vector>

#include "cohort/scheduler_resolvers.h"

namespace cohort::internal {

// What a launcher tells a process about its place.
struct LaunchedProcess {
  const char* launcher;   // "Torchrun", for messages
  int rank;               // among all
  int world_size;         // of all
  int local_rank;         // on this host
  int local_size;         // on this host
  std::string this_host;  // the name to use when all are on one host
};

// The addresses of all processes by rank. FailedPrecondition when they are on several hosts and
// there is no hostfile, when that has too few slots, or when this process is not where the file's
// order says: the ranks were then dealt to the hosts in another order.
std::vector<std::string> launched_addresses(const LaunchedProcess& process,
                                            const LauncherOptions& options);

}  // namespace cohort::internal
