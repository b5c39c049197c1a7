#pragma once

#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/device.h"

namespace cohort::internal {

// "/job:ps/replica:0/task:1"
std::string task_name(const std::string& job, int index);
// The task's part of a device's name.
std::string task_name(const DeviceName& device);

// All tasks of a cluster, by name.
std::vector<std::string> task_names(const ClusterSpec& cluster);
// Throws NotFound, listing those there are, when the cluster has no such task.
std::string address_of(const ClusterSpec& cluster, const std::string& task);

}  // namespace cohort::internal
