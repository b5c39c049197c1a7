#pragma once

#include <string>
#include <vector>

#include "cohort/cluster.h"

namespace cohort::internal {

// The tasks that train together, by worker id: the chief first, then the workers by index.
struct WorkerList {
  struct Worker {
    std::string name = {};  // "/job:worker/replica:0/task:1"
    std::string address = {};
  };
  std::vector<Worker> workers = {};
  int self = 0;              // this task's id
  bool is_chief = true;      // whether this task saves and logs for all
  bool spans_hosts = false;  // whether some workers are on other machines
  std::string cluster = {};  // the whole cluster as text, to compare

  int size() const { return static_cast<int>(workers.size()); }
  const Worker& own() const { return workers[static_cast<size_t>(self)]; }
};

// The workers that train with the given task of the cluster. Throws InvalidArgument as
// validate_task() does, for a ps, and if two workers have one address.
WorkerList list_workers(const ClusterSpec& cluster, const std::string& task_type, int task_id);

}  // namespace cohort::internal
