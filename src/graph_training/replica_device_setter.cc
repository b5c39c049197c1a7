#include "cohort/replica_device_setter.h"

#include <algorithm>
#include <numeric>

#include "base/raise.h"
#include "variables/graph_variable.h"

namespace cohort {
namespace internal {
namespace {

void require_tasks(std::string_view strategy, int num_tasks) {
  if (num_tasks > 0) return;
  raise(Code::InvalidArgument, "[{}] there must be at least 1 ps task, got {}", strategy,
        num_tasks);
}

// The setter's rules, with the device names parsed.
struct Setter {
  DeviceName ps;
  DeviceName worker;
  std::vector<int> ps_tasks;
  bool merge;
  std::vector<std::string> parameter_ops;
  PsStrategy strategy;

  bool is_parameter(const DeviceRequest& node) const {
    return std::ranges::find(parameter_ops, node.op) != parameter_ops.end();
  }

  int task_of(const DeviceRequest& node) const {
    const UnplacedVariable known = variable_being_placed();
    const int chosen = strategy({node.name, node.op, node.device, known.dtype, known.shape});
    const auto count = static_cast<int>(ps_tasks.size());
    if (chosen >= 0 && chosen < count) return ps_tasks[static_cast<size_t>(chosen)];
    raise(Code::InvalidArgument,
          "[ReplicaDeviceSetter] the strategy put '{}' on ps task {}, but there are {} ps tasks",
          node.name, chosen, count);
  }

  std::string operator()(const DeviceRequest& node) const {
    if (!merge && !node.device.empty()) return node.device;
    const DeviceName asked = DeviceName::parse(node.device);
    if (!is_parameter(node)) return asked.filled_from(worker).to_string();
    DeviceName place = ps;
    const bool ours = ps.job && (!asked.job || asked.job == ps.job);
    if (ours) place.task = task_of(node);
    return asked.filled_from(place).to_string();
  }
};

DeviceFunction make_setter(const ReplicaDeviceSetterOptions& options, std::vector<int> tasks) {
  Setter setter{.ps = DeviceName::parse(options.ps_device),
                .worker = DeviceName::parse(options.worker_device),
                .ps_tasks = std::move(tasks),
                .merge = options.merge_devices,
                .parameter_ops = options.parameter_ops,
                .strategy = options.strategy};
  if (setter.ps_tasks.empty()) return [](const DeviceRequest& node) { return node.device; };
  // Without a ps device nothing is a parameter.
  if (options.ps_device.empty()) setter.parameter_ops.clear();
  if (!setter.strategy) {
    setter.strategy = RoundRobinStrategy(static_cast<int>(setter.ps_tasks.size()));
  }
  return setter;
}

}  // namespace
}  // namespace internal

double byte_size_load_fn(const ParameterRequest& parameter) {
  if (!parameter.dtype || !parameter.shape.is_fully_known()) {
    internal::raise(Code::InvalidArgument,
                    "[ReplicaDeviceSetter] the bytes of '{}' must be known when it is placed, got "
                    "dtype {}, shape {}; give both when you make the variable",
                    parameter.name, parameter.dtype ? to_string(*parameter.dtype) : "unknown",
                    parameter.shape.to_string());
  }
  return static_cast<double>(parameter.shape.num_elements()) *
         static_cast<double>(size_of(*parameter.dtype));
}

RoundRobinStrategy::RoundRobinStrategy(int num_tasks)
    : num_tasks_(num_tasks), next_(std::make_shared<int>(0)) {
  internal::require_tasks("RoundRobinStrategy", num_tasks);
}

int RoundRobinStrategy::operator()(const ParameterRequest&) const {
  const int task = *next_;
  *next_ = (task + 1) % num_tasks_;
  return task;
}

GreedyLoadBalancingStrategy::GreedyLoadBalancingStrategy(int num_tasks, LoadFunction load)
    : load_(std::move(load)) {
  internal::require_tasks("GreedyLoadBalancingStrategy", num_tasks);
  if (!load_) {
    internal::raise(Code::InvalidArgument,
                    "[GreedyLoadBalancingStrategy] the load function is empty");
  }
  loads_ = std::make_shared<std::vector<double>>(static_cast<size_t>(num_tasks), 0.0);
}

int GreedyLoadBalancingStrategy::operator()(const ParameterRequest& parameter) const {
  const double load = load_(parameter);
  const auto least = std::min_element(loads_->begin(), loads_->end());
  *least += load;
  return static_cast<int>(least - loads_->begin());
}

DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options) {
  if (options.ps_tasks < 0) {
    internal::raise(Code::InvalidArgument,
                    "[ReplicaDeviceSetter] the number of ps tasks must not be negative, got {}",
                    options.ps_tasks);
  }
  std::vector<int> tasks(static_cast<size_t>(options.ps_tasks));
  std::iota(tasks.begin(), tasks.end(), 0);
  return internal::make_setter(options, std::move(tasks));
}

DeviceFunction replica_device_setter(const ClusterSpec& cluster,
                                     const ReplicaDeviceSetterOptions& options) {
  const std::string job = DeviceName::parse(options.ps_device).job.value_or("");
  const bool known = !job.empty() && cluster.has_job(job);
  return internal::make_setter(options, known ? cluster.task_indices(job) : std::vector<int>());
}

}  // namespace cohort
