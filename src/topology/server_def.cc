#include "base/raise.h"
#include "cohort/cluster.h"
#include "cohort/device.h"
#include "topology/text.h"

namespace cohort {
namespace {

using internal::raise;

std::string only_job(const ClusterSpec& cluster) {
  const std::vector<std::string> jobs = cluster.jobs();
  if (jobs.size() == 1) return jobs[0];
  raise(Code::InvalidArgument,
        "[Server] job_name is needed unless the cluster has exactly one job; its jobs are {}",
        internal::quoted_list(jobs));
}

int only_task(const ClusterSpec& cluster, const std::string& job) {
  const std::vector<int> indices = cluster.task_indices(job);
  if (indices.size() == 1) return indices[0];
  raise(Code::InvalidArgument,
        "[Server] task_index is needed unless the job has exactly one task; job '{}' has {}", job,
        indices.size());
}

void check_job(const ClusterSpec& cluster, const std::string& job) {
  if (!cluster.has_job(job)) {
    raise(Code::Internal, "[Server] job '{}' is not in the cluster; its jobs are {}{}", job,
          internal::quoted_list(cluster.jobs()), internal::did_you_mean(job, cluster.jobs()));
  }
  // The devices of the task have the job in their names.
  const std::optional<DeviceName> name = DeviceName::try_parse("/job:" + job);
  if (name && name->job) return;
  raise(Code::InvalidArgument,
        "[Server] the job '{}' cannot be part of a device name; expected a letter, then letters, "
        "digits and _",
        internal::excerpt(job));
}

}  // namespace

ServerDef make_server_def(const ClusterSpec& cluster, const ServerTask& task) {
  ServerDef def;
  def.cluster = cluster;
  def.job_name = task.job_name ? *task.job_name : only_job(cluster);
  check_job(cluster, def.job_name);
  def.task_index = task.task_index ? *task.task_index : only_task(cluster, def.job_name);
  def.protocol = task.protocol.value_or(def.protocol);
  (void)def.address();  // throws for an index that the job does not have
  return def;
}

ServerDef make_server_def(const ServerDef& def, const ServerTask& task) {
  return make_server_def(def.cluster, {.job_name = task.job_name.value_or(def.job_name),
                                       .task_index = task.task_index.value_or(def.task_index),
                                       .protocol = task.protocol.value_or(def.protocol)});
}

void ClusterDeviceFilters::set_device_filters(std::string_view job, int index,
                                              std::vector<std::string> patterns) {
  for (const std::string& pattern : patterns) (void)DeviceName::parse(pattern);
  patterns_[{std::string(job), index}] = std::move(patterns);
}

bool ClusterDeviceFilters::sees(std::string_view job, int index, std::string_view device) const {
  const auto found = patterns_.find({std::string(job), index});
  if (found == patterns_.end()) return true;
  const DeviceName name = DeviceName::parse(device);
  if (name.job == job && name.task == index) return true;
  for (const std::string& pattern : found->second) {
    if (DeviceName::parse(pattern).matches(name)) return true;
  }
  return found->second.empty();
}

}  // namespace cohort
