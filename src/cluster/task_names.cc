#include "cluster/task_names.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {

std::string task_name(const std::string& job, int index) {
  return fmt::format("/job:{}/replica:0/task:{}", job, index);
}

std::string task_name(const DeviceName& device) {
  return task_name(device.job.value_or(""), device.task.value_or(0));
}

std::vector<std::string> task_names(const ClusterSpec& cluster) {
  std::vector<std::string> names;
  for (const std::string& job : cluster.jobs()) {
    for (const int index : cluster.task_indices(job)) names.push_back(task_name(job, index));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string address_of(const ClusterSpec& cluster, const std::string& task) {
  const auto name = DeviceName::try_parse(task);
  if (name && name->job && name->task && cluster.has_task(*name->job, *name->task)) {
    return cluster.task_address(*name->job, *name->task);
  }
  raise(Code::NotFound, "[Cluster] there is no task {}; the cluster has {}", task,
        fmt::join(task_names(cluster), ", "));
}

}  // namespace cohort::internal
