#include <fmt/format.h>

#include <numeric>
#include <ostream>

#include "cohort/server.h"
#include "coordinator/cluster_roles.h"
#include "coordinator/parameter_server_extended.h"

namespace cohort {
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
