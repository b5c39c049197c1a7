#include "base/raise.h"
#include "cohort/cluster_resolver.h"
#include "cohort/device.h"
#include "topology/gpus.h"

namespace cohort {

std::string ClusterResolver::master(const std::optional<std::string>& task_type,
                                    const std::optional<int>& task_id,
                                    const std::optional<std::string>& rpc_layer) const {
  return find_master({task_type, task_id, rpc_layer});
}

std::map<std::string, int> ClusterResolver::num_accelerators(
    const std::optional<std::string>& task_type, const std::optional<int>& task_id) const {
  return count_accelerators({task_type, task_id});
}

ClusterResolver::Request ClusterResolver::completed(const Request& request) const {
  return {request.task_type ? request.task_type : task_type(),
          request.task_id ? request.task_id : task_id(),
          request.rpc_layer ? request.rpc_layer : rpc_layer()};
}

std::string ClusterResolver::address_of(const ClusterSpec& cluster, const Request& request) {
  if (!request.task_type || !request.task_id) {
    internal::raise(Code::InvalidArgument,
                    "[Master] which task of {} is this? Give the resolver a task type and index",
                    cluster.to_string());
  }
  const std::string address = cluster.task_address(*request.task_type, *request.task_id);
  const std::string layer = request.rpc_layer.value_or("");
  return layer.empty() ? address : layer + "://" + address;
}

std::string ClusterResolver::address_unless_alone(const ClusterSpec& cluster,
                                                  const Request& request) {
  const std::vector<std::string> jobs = cluster.jobs();
  const bool alone = jobs.empty() || (jobs.size() == 1 && cluster.num_tasks(jobs[0]) == 1);
  return alone ? "" : address_of(cluster, request);
}

std::string ClusterResolver::find_master(const Request& request) const {
  const Request whole = completed(request);
  return whole.task_type && whole.task_id ? address_of(cluster_spec(), whole) : "";
}

std::map<std::string, int> ClusterResolver::count_accelerators(const Request& request) const {
  std::map<std::string, int> counts;
  for (const std::string& device : visible_devices()) {
    const DeviceName name = DeviceName::parse(device);
    const bool of_one_task = request.task_type && request.task_id;
    if (of_one_task && (name.job != request.task_type || name.task != request.task_id)) continue;
    if (name.type && *name.type != "CPU") ++counts[*name.type];
  }
  return counts;
}

std::vector<std::string> ClusterResolver::visible_devices() const {
  DeviceName name;
  name.job = task_type().value_or("localhost");
  name.replica = 0;
  name.task = task_id().value_or(0);
  name.type = "GPU";
  std::vector<std::string> devices;
  for (int i = 0; i < internal::visible_gpu_count(); ++i) {
    name.index = i;
    devices.push_back(name.to_string());
  }
  return devices;
}

}  // namespace cohort
