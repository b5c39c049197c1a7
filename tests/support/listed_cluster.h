#pragma once

#include <sstream>
#include <string>

#include "cohort/cluster.h"

namespace cohort::test {

// A cluster of `ps` and `worker` tasks, told to a process as ProcessCluster tells it: addresses
// with commas between them.
inline ClusterSpec listed_cluster(const std::string& ps, const std::string& workers) {
  const auto split = [](const std::string& list) {
    TaskList parts;
    std::istringstream stream(list);
    for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
    return parts;
  };
  return ClusterSpec(
      std::map<std::string, TaskList>{{"ps", split(ps)}, {"worker", split(workers)}});
}

}  // namespace cohort::test
