#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/device.h"
#include "cohort/error.h"

namespace cohort::internal {

// "/job:ps/replica:0/task:1"
std::string task_name(const std::string& job, int index);
// The task's part of a device's name.
std::string task_name(const DeviceName& device);

// All tasks of a cluster, by name.
std::vector<std::string> task_names(const ClusterSpec& cluster);
// Throws NotFound, listing the tasks, when the cluster has no such task.
std::string address_of(const ClusterSpec& cluster, const std::string& task);

// The error of a task that was there and is not there any more.
inline Status lost_task(const std::string& task, const Status& why) {
  return {.code = Code::Unavailable,
          .message = fmt::format("[Cluster] task {} is lost", task),
          .origin = task,
          .cause = std::make_shared<const Status>(why)};
}

// The error of a task that is there again, without its state.
inline Status restarted_task(const std::string& task) {
  return {.code = Code::Aborted,
          .message = fmt::format("[Cluster] task {} was restarted; open a new session", task),
          .origin = task};
}

}  // namespace cohort::internal
