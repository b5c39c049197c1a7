#include <algorithm>
#include <array>

#include "base/raise.h"
#include "base/text.h"
#include "topology/resolver_parts.h"

namespace cohort {

int internal::tasks_in(const ClusterSpec& cluster, std::string_view job) {
  return cluster.has_job(job) ? cluster.num_tasks(job) : 0;
}

namespace {

using internal::raise;
using internal::tasks_in;

const std::array<std::string, 5> kRoles = {"chief", "worker", "ps", "evaluator", "master"};

// "master" is an old name of the chief.
bool is_chief_role(const std::string& type) { return type == "chief" || type == "master"; }

int chief_count(const ClusterSpec& cluster) {
  return tasks_in(cluster, "chief") + tasks_in(cluster, "master");
}

void check_role(const std::string& name, std::string_view what) {
  if (std::ranges::find(kRoles, name) != kRoles.end()) return;
  raise(Code::InvalidArgument,
        "[Cluster] the {} '{}' is not a role; expected chief, worker, ps or evaluator{}", what,
        internal::excerpt(name), internal::did_you_mean(name, kRoles));
}

void check_jobs(const ClusterSpec& cluster) {
  for (const std::string& job : cluster.jobs()) check_role(job, "job");
  if (const int chiefs = chief_count(cluster); chiefs > 1) {
    raise(Code::InvalidArgument, "[Cluster] there are {} chief tasks; expected at most one: {}",
          chiefs, cluster.to_string());
  }
  if (const int evaluators = tasks_in(cluster, "evaluator"); evaluators > 1) {
    raise(Code::InvalidArgument, "[Cluster] there are {} evaluator tasks; expected at most one: {}",
          evaluators, cluster.to_string());
  }
}

void check_task(const ClusterSpec& cluster, const std::string& type, int id) {
  check_role(type, "task type");
  const bool evaluator_outside = type == "evaluator" && !cluster.has_job(type);
  if (evaluator_outside && id >= 0) return;
  if (!cluster.has_job(type) && type != "evaluator") {
    raise(Code::InvalidArgument, "[Cluster] this task is a '{}', but the cluster has only {}", type,
          internal::quoted_list(cluster.jobs()));
  }
  if (!cluster.has_task(type, id)) {
    raise(Code::InvalidArgument,
          "[Cluster] this task is number {} of job '{}', which has {} tasks; indices start at 0",
          id, type, tasks_in(cluster, type));
  }
}

void check_trains(const std::string& type) {
  if (type != "ps") return;
  raise(Code::InvalidArgument, "[Cluster] a ps holds variables and has no place among the workers");
}

// How many tasks of the job come before `id`: its index, if no index is missing.
int place_in_job(const ClusterSpec& cluster, const std::string& job, int id) {
  const std::vector<int> indices = cluster.task_indices(job);
  return static_cast<int>(std::ranges::lower_bound(indices, id) - indices.begin());
}

}  // namespace

void validate_task(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                   const std::optional<int>& task_id) {
  check_jobs(cluster);
  if (!task_type || task_type->empty()) {
    raise(Code::InvalidArgument,
          "[Cluster] the type of this task is not known; give it to the resolver (task_type, or "
          "\"task\" in TF_CONFIG)");
  }
  if (!task_id) {
    raise(Code::InvalidArgument,
          "[Cluster] the index of this '{}' task is not known; give it to the resolver (task_id, "
          "or \"index\" in TF_CONFIG)",
          *task_type);
  }
  check_task(cluster, *task_type, *task_id);
}

bool is_chief(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
              const std::optional<int>& task_id) {
  validate_task(cluster, task_type, task_id);
  if (is_chief_role(*task_type) || *task_type == "evaluator") return true;
  return *task_type == "worker" && *task_id == 0 && chief_count(cluster) == 0;
}

int worker_count(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                 const std::optional<int>& task_id) {
  validate_task(cluster, task_type, task_id);
  check_trains(*task_type);
  // An evaluator that is not in the cluster is a group of its own.
  if (*task_type == "evaluator") return std::max(1, tasks_in(cluster, "evaluator"));
  return chief_count(cluster) + tasks_in(cluster, "worker");
}

int id_in_cluster(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                  const std::optional<int>& task_id) {
  validate_task(cluster, task_type, task_id);
  check_trains(*task_type);
  if (*task_type == "evaluator") return *task_id;
  if (is_chief_role(*task_type)) return 0;
  return chief_count(cluster) + place_in_job(cluster, *task_type, *task_id);
}

}  // namespace cohort
