#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/gpus.h"
#include "topology/launcher.h"
#include "topology/node_list.h"
#include "topology/text.h"

namespace cohort {
namespace {

using internal::raise;

constexpr const char* kSlurm = "Slurm";

using HostTasks = std::map<std::string, int>;  // tasks on each host; sorted by name

HostTasks tasks_as_slurm_says(const std::vector<std::string>& hosts) {
  const std::vector<int> counts =
      internal::parse_task_counts(internal::require_variable("SLURM_STEP_TASKS_PER_NODE", kSlurm));
  if (counts.size() != hosts.size()) {
    raise(Code::InvalidArgument,
          "[Slurm] SLURM_STEP_NODELIST has {} hosts, but SLURM_STEP_TASKS_PER_NODE counts for {}",
          hosts.size(), counts.size());
  }
  HostTasks tasks;
  for (size_t i = 0; i < hosts.size(); ++i) tasks[hosts[i]] += counts[i];
  return tasks;
}

HostTasks tasks_on_hosts(const SlurmOptions& options) {
  if (const auto* given = std::get_if<HostTasks>(&options.tasks_per_node)) return *given;
  const std::vector<std::string> hosts =
      internal::parse_node_list(internal::require_variable("SLURM_STEP_NODELIST", kSlurm));
  if (std::holds_alternative<std::monostate>(options.tasks_per_node)) {
    return tasks_as_slurm_says(hosts);
  }
  HostTasks tasks;
  for (const std::string& host : hosts) tasks[host] = std::get<int>(options.tasks_per_node);
  return tasks;
}

int most_tasks_per_host(const HostTasks& tasks) {
  int most = 0;
  int64_t total = 0;
  for (const auto& [host, count] : tasks) {
    total += count;
    if (count < 1) {
      raise(Code::InvalidArgument, "[Slurm] {} tasks on host '{}'; expected one or more", count,
            host);
    }
    most = std::max(most, count);
  }
  constexpr int64_t kMaxTasks = 1'000'000;
  if (total < 1 || total > kMaxTasks) {
    raise(Code::InvalidArgument, "[Slurm] {} tasks on {} hosts; expected 1 to {}", total,
          tasks.size(), kMaxTasks);
  }
  return most;
}

// The GPUs of a node by the names that CUDA_VISIBLE_DEVICES takes.
std::vector<std::string> gpus_of_node(const SlurmOptions& options) {
  if (!options.gpus_per_node) {
    if (std::optional<std::vector<std::string>> named = internal::named_gpus()) return *named;
  }
  const int count = options.gpus_per_node.value_or(internal::installed_gpu_count());
  if (count < 0) raise(Code::InvalidArgument, "[Slurm] gpus_per_node is {}", count);
  std::vector<std::string> ids;
  for (int i = 0; i < count; ++i) ids.push_back(std::to_string(i));
  return ids;
}

int share_of_gpus(const SlurmOptions& options, int gpus, int tasks) {
  const int share = options.gpus_per_task.value_or(gpus / tasks);
  if (share < 0) raise(Code::InvalidArgument, "[Slurm] gpus_per_task is {}", share);
  if (int64_t{share} * tasks > gpus) {
    raise(Code::FailedPrecondition,
          "[Slurm] {} tasks on a node with {} GPUs each need {}, but gpus_per_node is {}", tasks,
          share, int64_t{share} * tasks, gpus);
  }
  return share;
}

std::string block_of_gpus(const std::vector<std::string>& gpus, int share, int place) {
  std::string text;
  for (int i = place * share; i < (place + 1) * share; ++i) {
    text += (text.empty() ? "" : ",") + gpus[static_cast<size_t>(i)];
  }
  return text;
}

// Steps of one job may run at the same time.
std::optional<std::string> slurm_job() {
  const std::optional<std::string> job = internal::environment_variable("SLURM_JOB_ID");
  if (!job) return std::nullopt;
  return *job + "." + internal::environment_variable("SLURM_STEP_ID").value_or("");
}

}  // namespace

SlurmClusterResolver::SlurmClusterResolver(const SlurmOptions& options) {
  const int rank = internal::require_number("SLURM_PROCID", kSlurm);
  std::map<std::string, int> jobs = options.jobs;
  if (jobs.empty()) jobs["worker"] = internal::require_number("SLURM_STEP_NUM_TASKS", kSlurm);
  const HostTasks hosts = tasks_on_hosts(options);
  const int most = most_tasks_per_host(hosts);
  const std::vector<std::string> gpus = gpus_of_node(options);
  gpus_per_task_ = share_of_gpus(options, static_cast<int>(gpus.size()), most);
  rpc_layer_ = options.rpc_layer;
  const int port_base = internal::job_port_base(options.port_base, slurm_job(), most);
  std::vector<std::string> addresses;
  for (const auto& [host, count] : hosts) {
    for (int place = 0; place < count; ++place) {
      const bool own = static_cast<int>(addresses.size()) == rank;
      if (own && options.auto_set_gpu && !gpus.empty()) {
        own_gpus_ = block_of_gpus(gpus, gpus_per_task_, place);
      }
      addresses.push_back(
          internal::address_text(host, internal::port_at(port_base, place, kSlurm)));
    }
  }
  deal({std::move(addresses), std::move(jobs), rank, kSlurm});
}

ClusterSpec SlurmClusterResolver::cluster_spec() const {
  if (own_gpus_) setenv("CUDA_VISIBLE_DEVICES", own_gpus_->c_str(), 1);
  asked_->store(true);
  return RankedClusterResolver::cluster_spec();
}

std::optional<std::string> SlurmClusterResolver::task_type() const {
  return asked_->load() ? RankedClusterResolver::task_type() : task_type_;
}

std::optional<int> SlurmClusterResolver::task_id() const {
  return asked_->load() ? RankedClusterResolver::task_id() : task_id_;
}

std::map<std::string, int> SlurmClusterResolver::count_accelerators(const Request&) const {
  return {{"GPU", gpus_per_task_}};
}

}  // namespace cohort
