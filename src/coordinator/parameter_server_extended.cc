#include "coordinator/parameter_server_extended.h"

#include <fmt/format.h>

#include <atomic>

#include "base/log.h"
#include "distribute/contexts/context.h"
#include "distribute/contexts/distributed_values.h"
#include "distribute/strategies/strategy_setup.h"
#include "distribute/variables/distributed_variable.h"
#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

constexpr const char* kHost = "CPU:0";

constinit ContextSlot<bool> tracing_for_workers;

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

TracingForWorkers::TracingForWorkers() : ContextValue(tracing_for_workers, true) {}
bool TracingForWorkers::active() { return tracing_for_workers.get(); }

ParameterServerExtended::ParameterServerExtended(const ClusterResolver& resolver,
                                                 const ParameterServerOptions& options)
    : resolver_(resolver),
      cluster_(resolver.cluster_spec()),
      options_(options),
      devices_(devices_of(options)),
      servers_(std::make_shared<ParameterServers>(
          cluster_, ParameterServersOptions{.container = next_container(),
                                            .credentials = options.credentials,
                                            .connect_timeout = options.connect_timeout})),
      cross_device_ops_(canonical_device(kHost)),
      group_updates_(servers_) {
  note_joint_training();
  plan_.bytes_per_ps.resize(servers_->size());
  if (is_chief(resolver)) servers_->take_over();
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
  return options_.sync && thread_dispatch().builder != nullptr;
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

}  // namespace cohort::internal
