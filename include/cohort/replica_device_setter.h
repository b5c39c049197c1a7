#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "cohort/device.h"
#include "cohort/dtype.h"
#include "cohort/shape.h"

// Between-graph replication: where the nodes of a worker's graph go. Parameters go to the ps tasks,
// which all workers share, and everything else to the worker.

namespace cohort {

// A parameter that is being added to a graph, as a strategy sees it.
struct ParameterRequest {
  std::string name;
  std::string op;
  std::string device;          // what the scopes inside the setter's ask for
  std::optional<DType> dtype;  // nullopt when only its initializer knows
  Shape shape;                 // unknown likewise
};

// Says which ps task takes the parameter, counted from 0. It is asked in the order in which the
// parameters are made, so every worker must make them in the same order.
using PsStrategy = std::function<int(const ParameterRequest&)>;
// What a parameter adds to the load of its task.
using LoadFunction = std::function<double(const ParameterRequest&)>;

// The bytes of the parameter. InvalidArgument naming it when its dtype or shape is not fully known.
double byte_size_load_fn(const ParameterRequest& parameter);

// One task after the other. Copies share the turn.
class RoundRobinStrategy {
 public:
  explicit RoundRobinStrategy(int num_tasks);
  int operator()(const ParameterRequest& parameter) const;

 private:
  int num_tasks_;
  std::shared_ptr<int> next_;
};

// The task with the least load so far, of equal ones the first. Copies share the loads.
class GreedyLoadBalancingStrategy {
 public:
  explicit GreedyLoadBalancingStrategy(int num_tasks, LoadFunction load = byte_size_load_fn);
  int operator()(const ParameterRequest& parameter) const;
  std::vector<double> loads() const { return *loads_; }

 private:
  LoadFunction load_;
  std::shared_ptr<std::vector<double>> loads_;
};

struct ReplicaDeviceSetterOptions {
  int ps_tasks = 0;  // how many there are; a cluster says it itself
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";  // usually with this worker's task
  bool merge_devices = true;  // false: a node that asks for any device keeps it as it is
  std::vector<std::string> parameter_ops = {"VariableHandle"};
  PsStrategy strategy = nullptr;  // nullptr: in turn
};

// For device(): auto on = device(replica_device_setter(cluster, {.worker_device =
// "/job:worker/task:1"}));
//
// A parameter goes to the ps device and, unless scopes inside name another job, to the task that
// the strategy says; other nodes go to the worker device; what scopes inside ask for wins. Without
// ps tasks it changes nothing. Throws InvalidArgument for a text that is not a device name, a
// negative number of tasks, and, when a parameter is made, for a strategy's answer that is not a
// task.
DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options);
// The ps tasks are those of the job that ps_device names.
DeviceFunction replica_device_setter(const ClusterSpec& cluster,
                                     const ReplicaDeviceSetterOptions& options = {});

}  // namespace cohort
