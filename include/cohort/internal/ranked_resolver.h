#pragma once

#include <map>

#include "cohort/cluster_resolver.h"

// What the resolvers of numbered processes have in common. Not for inclusion by users: include
// cohort/scheduler_resolvers.h.

namespace cohort {
struct LauncherOptions;
}

namespace cohort::internal {

struct LaunchedProcess;

// RankedClusterResolver is the base class of resolvers for numbered processes. It deals a list of
// addresses to the jobs, ordered by name; the process with rank p is task p of the list. Throws
// FailedPrecondition if the jobs do not need as many tasks as there are.
class RankedClusterResolver : public ClusterResolver {
 public:
  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;

 protected:
  RankedClusterResolver() = default;

  struct Ranks {
    std::vector<std::string> addresses;
    std::map<std::string, int> jobs;  // tasks of each; empty: all are workers
    std::optional<int> rank;          // of this process, if it has one
    const char* operation;            // for messages: "Slurm"
  };
  void deal(Ranks ranks);
  void deal(const LaunchedProcess& process, const LauncherOptions& options);

 private:
  std::vector<ClusterJob> jobs_;
  std::optional<std::string> local_type_;
  std::optional<int> local_id_;
};

}  // namespace cohort::internal
