#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cohort/scheduler_resolvers.h"

namespace cohort::internal {

// What a launcher tells a process about its place.
struct LaunchedProcess {
  struct Local {
    int rank;  // among the processes of this host
    int size;
  };
  const char* launcher;  // "Torchrun", for messages: TorchrunClusterResolver
  const char* local_variables;
  int rank;                        // among all processes
  int world_size;                  // number of all processes
  std::optional<Local> local;      // empty if the launcher does not say
  std::string this_host;           // the name to use if all processes are on one host
  std::optional<std::string> job;  // a name that no other job has at the same time
};

// The addresses of all processes by rank. Throws FailedPrecondition if the processes may be on
// several hosts and the options name no hostfile, if the hostfile has too few slots, or if this
// process is not where the hostfile puts its rank.
std::vector<std::string> launched_addresses(const LaunchedProcess& process,
                                            const LauncherOptions& options);

// The first port of a job: `given`, or a port that all processes compute from the name of the job,
// so that two jobs most likely get different ports. It lies below the ports that the system hands
// out. `tasks` is how many ports the job needs on a host. 8888 for a job without a name.
int job_port_base(std::optional<int> given, const std::optional<std::string>& job, int tasks);

// The launcher that started this process as one of several.
struct LaunchOfSeveral {
  std::string launcher;  // "torchrun (RANK, WORLD_SIZE)"
  int processes;
};
// Nothing for a process that was started alone, as an evaluator is. Throws as
// resolver_from_environment() does.
std::optional<LaunchOfSeveral> launch_of_several();

}  // namespace cohort::internal
