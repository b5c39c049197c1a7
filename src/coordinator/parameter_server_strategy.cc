#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>

#include "base/raise.h"
#include "cohort/server.h"
#include "coordinator/parameter_server_extended.h"

namespace cohort {
namespace internal {
namespace {

constexpr std::array<std::string_view, 4> kRoles{"chief", "worker", "ps", "evaluator"};

bool is_role(std::string_view job) { return std::ranges::find(kRoles, job) != kRoles.end(); }

int count(const ClusterSpec& cluster, std::string_view job) {
  return cluster.has_job(job) ? cluster.num_tasks(job) : 0;
}

[[noreturn]] void refuse(const ClusterSpec& cluster, const std::string& why) {
  raise(Code::InvalidArgument, "[ParameterServerStrategy] {}, in {}", why, cluster.to_string());
}

void check_jobs(const ClusterSpec& cluster) {
  if (!cluster) {
    raise(Code::InvalidArgument,
          "[ParameterServerStrategy] the cluster is empty; give one with a 'ps' and a 'worker' job "
          "(TF_CONFIG, or SimpleClusterResolver)");
  }
  for (const std::string& job : cluster.jobs()) {
    if (!is_role(job)) {
      refuse(cluster, "there is a job '" + job + "'; jobs are chief, worker, ps and evaluator");
    }
  }
  if (count(cluster, "chief") > 1) refuse(cluster, "there is more than one chief");
  if (count(cluster, "evaluator") > 1) refuse(cluster, "there is more than one evaluator");
  if (count(cluster, "ps") == 0) refuse(cluster, "there is no ps task, which would have variables");
  if (count(cluster, "worker") == 0) refuse(cluster, "there is no worker, which would run steps");
}

void check_task(const ClusterSpec& cluster, const std::string& type, std::optional<int> id) {
  if (!is_role(type)) {
    refuse(cluster, "this task is a '" + type + "'; a task is chief, worker, ps or evaluator");
  }
  if (type == "evaluator") return;
  if (!cluster.has_job(type)) refuse(cluster, "this task is a " + type + ", and there is none");
  if (id && !cluster.has_task(type, *id)) {
    refuse(cluster, "this task is " + type + " " + std::to_string(*id) + ", which is not there");
  }
}

}  // namespace

void check_roles(const ClusterResolver& resolver) {
  const ClusterSpec cluster = resolver.cluster_spec();
  check_jobs(cluster);
  const std::optional<std::string> type = resolver.task_type();
  if (type && !type->empty()) check_task(cluster, *type, resolver.task_id());
}

bool is_chief(const ClusterResolver& resolver) {
  const std::string type = resolver.task_type().value_or("");
  return type.empty() || type == "chief";
}

}  // namespace internal

namespace {

std::unique_ptr<StrategyExtended> make_extended(const ClusterResolver& resolver,
                                                const ParameterServerOptions& options) {
  internal::check_roles(resolver);
  return std::make_unique<internal::ParameterServerExtended>(resolver, options);
}

}  // namespace

ParameterServerStrategy::ParameterServerStrategy(const ClusterResolver& resolver,
                                                 const ParameterServerOptions& options)
    : Strategy(make_extended(resolver, options)) {}

ParameterServerPlan ParameterServerStrategy::plan() const {
  return static_cast<internal::ParameterServerExtended&>(extended()).plan();
}

bool serve_task(const ClusterResolver& resolver) {
  const std::string job = resolver.task_type().value_or("");
  if (job != "ps" && job != "worker") return false;
  internal::check_roles(resolver);
  Server(resolver.cluster_spec(), {.job_name = job, .task_index = resolver.task_id()}).join();
  return true;
}

int64_t ParameterServerPlan::total_bytes() const {
  return std::accumulate(bytes_per_ps.begin(), bytes_per_ps.end(), int64_t{0});
}

std::string ParameterServerPlan::to_string() const {
  std::string text = fmt::format("{:<40} {:<42} {:>14}\n", "variable", "device", "bytes");
  for (const PlacedVariable& variable : variables) {
    text += fmt::format("{:<40} {:<42} {:>14}\n", variable.name, variable.device, variable.bytes);
  }
  for (size_t ps = 0; ps < bytes_per_ps.size(); ++ps) {
    text += fmt::format("ps {}: {} bytes\n", ps, bytes_per_ps[ps]);
  }
  for (const TaskMemory& task : memory_per_task) {
    text += fmt::format("{} needs {} bytes\n", task.task, task.bytes);
  }
  return text + fmt::format("a worker's step reads and sends at most {} bytes\n", bytes_per_step);
}

std::ostream& operator<<(std::ostream& out, const ParameterServerPlan& plan) {
  return out << plan.to_string();
}

}  // namespace cohort
