#include "coordinator/parameter_server_strategy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>

#include "base/log.h"
#include "base/raise.h"
#include "base/time_limit.h"
#include "cohort/server.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/distributed_variable.h"
#include "ops/dispatch.h"

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
  if (count(cluster, "ps") == 0) refuse(cluster, "there is no ps task to keep the variables");
  if (count(cluster, "worker") == 0) refuse(cluster, "there is no worker task to run the steps");
}

void check_task(const ClusterSpec& cluster, const std::string& type, std::optional<int> id) {
  if (!is_role(type)) {
    refuse(cluster, "this task is a '" + type + "'; a task is chief, worker, ps or evaluator");
  }
  if (type == "evaluator") return;
  if (!cluster.has_job(type)) {
    refuse(cluster, "this task is a " + type + ", but the cluster has none");
  }
  if (id && !cluster.has_task(type, *id)) {
    refuse(cluster, "this task is " + type + " " + std::to_string(*id) +
                        ", which the cluster does not have");
  }
}

constexpr const char* kHost = "CPU:0";

// A program that is started again gets the same name, so that it finds and clears its old
// variables.
std::string next_container() {
  static std::atomic<int> made{0};
  return fmt::format("parameter_server_{}", made.fetch_add(1));
}

std::vector<std::string> devices_of(const ParameterServerOptions& options) {
  if (options.devices.empty()) return {canonical_device(kHost)};
  return resolve_devices("ParameterServerStrategy", options.devices);
}

// Where values go that belong beside a variable. Outside graphs they stay in this process, and
// reach the variable's server when they are written.
Destinations reachable(const Destinations& wanted) {
  if (thread_dispatch().builder != nullptr) return wanted;
  std::vector<std::string> devices = wanted.devices();
  for (std::string& device : devices) {
    if (DeviceName::parse(device).job == "ps") device = canonical_device(kHost);
  }
  return Destinations::of_devices(std::move(devices));
}

}  // namespace

void check_roles(const ClusterResolver& resolver) {
  const ClusterSpec cluster = resolver.cluster_spec();
  check_jobs(cluster);
  const std::optional<std::string> type = resolver.task_type();
  if (type && !type->empty()) check_task(cluster, *type, resolver.task_id());
}

ParameterServerExtended::ParameterServerExtended(const ClusterResolver& resolver,
                                                 const ParameterServerOptions& options)
    : resolver_(resolver),
      cluster_(resolver.cluster_spec()),
      options_(options),
      devices_(devices_of(options)),
      servers_(std::make_shared<ParameterServers>(
          cluster_,
          ParameterServersOptions{.container = next_container(),
                                  .credentials = options.credentials,
                                  .connect_timeout = request_limit(options.connect_timeout)})),
      cross_device_ops_(canonical_device(kHost)),
      group_updates_(servers_) {
  note_joint_training();
  plan_.bytes_per_ps.resize(servers_->size());
  // The chief leads the others, or a program that is not a task.
  const std::string type = resolver.task_type().value_or("");
  if (type.empty() || type == "chief") servers_->take_over();
}

std::vector<std::string> ParameterServerExtended::parameter_devices() const {
  std::vector<std::string> devices;
  for (size_t ps = 0; ps < servers_->size(); ++ps) {
    devices.push_back(servers_->device(ps).to_string());
  }
  return devices;
}

InputContext ParameterServerExtended::input_context() const {
  return BuildForWorker::context(static_cast<int>(devices_.size()));
}

void ParameterServerExtended::warn_outside(std::string_view what) const {
  if (TracingForWorkers::active()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!warned_.emplace(what).second) return;
  }
  log_warning(
      "[ParameterServerStrategy] {} was called outside a scheduled function, so it happens in "
      "this process and no worker takes part; pass the code to ClusterCoordinator::schedule",
      what);
}

void ParameterServerExtended::call_for_each_replica(
    const std::function<void(ReplicaContext&)>& body) {
  warn_outside("run()");
  StrategyExtended::call_for_each_replica(body);
}

std::vector<DistributedValue> ParameterServerExtended::batch_reduce_to(
    ReduceOp op, std::span<const ReduceRequest> requests, const CommunicationOptions& options) {
  require_cross_replica_or_default(strategy(), "batch_reduce_to");
  std::vector<DistributedValue> results;
  for (const auto& [value, destinations] : requests) {
    warn_outside("reduce()");
    results.push_back(is_common(value)
                          ? value
                          : cross_device_ops_.reduce(op, value, reachable(destinations), options));
  }
  return results;
}

DistributedValue ParameterServerExtended::broadcast_to(const Tensor& value,
                                                       const Destinations& destinations) {
  require_cross_replica_or_default(strategy(), "broadcast_to");
  return broadcast_value(value, reachable(destinations), cross_device_ops_);
}

DistributedValue ParameterServerExtended::gather_to(const DistributedValue& value,
                                                    const Destinations& destinations, int axis,
                                                    const CommunicationOptions& options) {
  require_cross_replica_or_default(strategy(), "gather_to");
  if (value.kind() == DistributedValue::Kind::Plain) return value;
  return cross_device_ops_.gather(value, reachable(destinations), axis, options);
}

DistributedValue ParameterServerExtended::update_copies(const Variable& variable,
                                                        const Change& change) {
  require_cross_replica_or_default(strategy(), "update");
  return change_copies(variable, change);
}

bool ParameterServerExtended::groups_gradients() const {
  return options_.sync && TracingForWorkers::active() && thread_dispatch().builder != nullptr;
}

Tensor ParameterServerExtended::add_to_group(const Gradients& gradients,
                                             const std::vector<Variable>& variables,
                                             const Variable& count, const Update& update) {
  return group_updates_.add(gradients, variables, count, update);
}

ParameterServerPlan ParameterServerExtended::plan() const {
  group_updates_.drop_ended();
  ParameterServerPlan made;
  {
    const std::lock_guard lock(mutex_);
    forget_released();
    made = plan_;
  }
  for (size_t ps = 0; ps < servers_->size(); ++ps) {
    made.memory_per_task.push_back({servers_->device(ps).split().first, made.bytes_per_ps[ps]});
  }
  for (const int task : cluster_.task_indices("worker")) {
    made.memory_per_task.push_back(
        {fmt::format("/job:worker/replica:0/task:{}", task), made.bytes_per_step});
  }
  return made;
}

std::vector<std::string> ParameterServerExtended::variables_on(const std::string& task) const {
  std::vector<std::string> names;
  const std::lock_guard lock(mutex_);
  forget_released();
  for (const PlacedVariable& placed : plan_.variables) {
    if (placed.device.starts_with(task + "/")) names.push_back(placed.name);
  }
  return names;
}

}  // namespace internal

namespace {

std::unique_ptr<StrategyExtended> make_extended(const ClusterResolver& resolver,
                                                const ParameterServerOptions& options) {
  if (options.ps_memory_bytes && *options.ps_memory_bytes < 1) {
    internal::raise(
        Code::InvalidArgument,
        "[ParameterServerStrategy] ps_memory_bytes must be at least 1, got {}; leave it "
        "empty for no limit",
        *options.ps_memory_bytes);
  }
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
