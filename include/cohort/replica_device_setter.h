#pragma once

#include <memory>

#include "cohort/cluster.h"
#include "cohort/device.h"
#include "cohort/dtype.h"
#include "cohort/shape.h"

// Between-graph replication: each worker builds its own graph. The setter places the parameters on
// the ps tasks, which all workers share, and every other node on the worker.

namespace cohort {

// ParameterRequest describes a parameter that is being added to a graph.
struct ParameterRequest {
  std::string name;
  std::string op;
  std::string device;          // as requested by the scopes inside the setter's
  std::optional<DType> dtype;  // nullopt: only the initializer knows the dtype
  Shape shape;                 // unknown: only the initializer knows the shape
};

// PsStrategy returns the ps task for a parameter, counted from 0. It is called in the order in
// which parameters are created, so all workers must create them in the same order.
using PsStrategy = std::function<int(const ParameterRequest&)>;
// LoadFunction returns what a parameter adds to the load of its task.
using LoadFunction = std::function<double(const ParameterRequest&)>;

// Returns the bytes of the parameter. Throws InvalidArgument if they are not known, with its name.
double byte_size_load_fn(const ParameterRequest& parameter);

// RoundRobinStrategy returns one task after the other. Copies share the turn.
class RoundRobinStrategy {
 public:
  explicit RoundRobinStrategy(int num_tasks);
  int operator()(const ParameterRequest& parameter) const;

 private:
  int num_tasks_;
  std::shared_ptr<int> next_;
};

// GreedyLoadBalancingStrategy returns the first task with the least load. Copies share the loads.
class GreedyLoadBalancingStrategy {
 public:
  explicit GreedyLoadBalancingStrategy(int num_tasks, LoadFunction load = byte_size_load_fn);
  int operator()(const ParameterRequest& parameter) const;
  std::vector<double> loads() const { return *loads_; }

 private:
  LoadFunction load_;
  std::shared_ptr<std::vector<double>> loads_;
};

// ReplicaDeviceSetterOptions sets the devices of a replica_device_setter().
struct ReplicaDeviceSetterOptions {
  int ps_tasks = 0;  // number of ps tasks, for use without a ClusterSpec
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";  // usually with the task of this worker
  bool merge_devices = true;  // false: a node that requests any device keeps exactly that
  std::vector<std::string> parameter_ops = {"VariableHandle"};
  PsStrategy strategy = nullptr;  // nullptr: round robin
};

// Returns a function for device() that places the nodes of one worker.
//
//   auto building = graph.as_default();
//   auto on = device(replica_device_setter(cluster, {.worker_device = "/job:worker/task:1"}));
//   Variable kernel = get_variable("kernel", {.shape = {2, 3}});  // on a ps task
//   Tensor product = matmul(x, kernel);                           // on the worker
//
// A parameter goes to the ps device and to the task that the strategy returns, unless a scope
// inside names another job. Any other node goes to the worker device. What scopes inside request
// has precedence. Without ps tasks the function changes nothing.
//
// Throws InvalidArgument if a text is not the name of a device, or if the number of tasks is
// negative. Creating a parameter throws it if the strategy returns a task that does not exist.
DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options);
// Uses the ps tasks of `cluster`: those of the job that ps_device names.
DeviceFunction replica_device_setter(const ClusterSpec& cluster,
                                     const ReplicaDeviceSetterOptions& options = {});

}  // namespace cohort
