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
  int rank;                        // among all
  int world_size;                  // of all
  std::optional<Local> local;      // nothing where the launcher does not say
  std::string this_host;           // the name to use when all are on one host
  std::optional<std::string> job;  // what no other job is called at the same time
};

// The addresses of all processes by rank. FailedPrecondition when they are, or may be, on several
// hosts and there is no hostfile, when that has too few slots, or when this process is not where
// the file's order says: the ranks were then dealt to the hosts in another order.
std::vector<std::string> launched_addresses(const LaunchedProcess& process,
                                            const LauncherOptions& options);

// The first port of a job: `given`, or one below the ports that the system hands out, the same for
// all processes of a job and most likely another one for another job. `tasks` is how many ports
// the job needs on a host. 8888 for a job without a name.
int job_port_base(std::optional<int> given, const std::optional<std::string>& job, int tasks);

// Who started this process, when it was started as one of several.
struct LaunchOfSeveral {
  std::string launcher;  // "torchrun (RANK, WORLD_SIZE)"
  int processes;
};
// Nothing for a process that was started alone. An evaluator is on its own. Throws as
// resolver_from_environment() does.
std::optional<LaunchOfSeveral> launch_of_several();

}  // namespace cohort::internal
