#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/task_directory.h"
#include "cohort/session.h"
#include "graph/placer.h"

namespace cohort::internal {

// Places a session's graph on the devices of a cluster. Every task has a CPU:0, so tasks are asked
// for their devices only when a node wants another one there. Not thread-safe.
class ClusterPlacement {
 public:
  // `local_devices`: of the session's master.
  ClusterPlacement(const TaskDirectory& directory, const SessionOptions& options,
                   const std::vector<std::string>& local_devices);

  // Places the nodes that are new since the last time. Returns their placement lines.
  std::vector<std::string> place(const GraphImpl& graph, const Gathering& gathering);
  const std::vector<DeviceName>& placed() const { return placed_; }

  // All devices of all tasks that the session may use.
  std::vector<std::string> list_devices(const Gathering& gathering);

 private:
  bool is_allowed(const std::string& task) const;
  std::vector<std::string> tasks_to_ask(const GraphImpl& graph) const;
  void ask(const std::vector<std::string>& tasks, const Gathering& gathering);

  const TaskDirectory& directory_;
  const SessionOptions options_;
  std::vector<DeviceName> filters_;
  std::vector<std::string> allowed_;                        // tasks
  std::map<std::string, std::vector<DeviceName>> devices_;  // by task; presumed unless asked
  std::map<std::string, bool> asked_;
  std::vector<DeviceName> placed_;  // by node
};

}  // namespace cohort::internal
