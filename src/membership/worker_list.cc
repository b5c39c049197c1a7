#include "membership/worker_list.h"

#include <map>

#include "base/raise.h"
#include "cohort/device.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

std::string name_of(const std::string& job, int index) {
  DeviceName name;
  name.job = job;
  name.replica = 0;
  name.task = index;
  return name.to_string();
}

void add_job(const ClusterSpec& cluster, const std::string& job, WorkerList& list) {
  if (!cluster.has_job(job)) return;
  for (const int index : cluster.task_indices(job)) {
    list.workers.push_back({name_of(job, index), cluster.task_address(job, index)});
  }
}

void check_addresses(const WorkerList& list) {
  std::map<std::string, std::string> taken;
  for (const WorkerList::Worker& worker : list.workers) {
    (void)parse_address(worker.address);
    const auto [known, is_new] = taken.emplace(worker.address, worker.name);
    if (is_new) continue;
    raise(Code::InvalidArgument,
          "[MultiWorkerMirroredStrategy] {} and {} have the same address, {}; each worker needs "
          "its own: {}",
          known->second, worker.name, worker.address, list.cluster);
  }
}

}  // namespace

WorkerList list_workers(const ClusterSpec& cluster, const std::string& task_type, int task_id) {
  const int count = worker_count(cluster, task_type, task_id);
  WorkerList list{.self = id_in_cluster(cluster, task_type, task_id),
                  .is_chief = cohort::is_chief(cluster, task_type, task_id),
                  .spans_hosts = cohort::internal::spans_hosts(cluster),
                  .cluster = cluster.to_string()};
  if (task_type == "evaluator") {
    add_job(cluster, "evaluator", list);
    if (list.workers.empty()) list.workers.push_back({name_of(task_type, task_id), ""});
    list.self = std::min(list.self, count - 1);
    return list;
  }
  for (const char* const job : {"chief", "master", "worker"}) add_job(cluster, job, list);
  check_addresses(list);
  return list;
}

}  // namespace cohort::internal
