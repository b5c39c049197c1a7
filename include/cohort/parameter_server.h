#pragma once

#include "cohort/cluster.h"
#include "cohort/internal/durations.h"
#include "cohort/sharded_variable.h"
#include "cohort/strategy.h"

// Training with parameter servers: variables live on ps tasks, worker tasks run the steps, and this
// process, the chief, schedules the steps (cohort/coordinator.h).

namespace cohort {

// VariablePlacement says which parameter server gets the next variable.
enum class VariablePlacement {
  RoundRobin,  // each server in turn
  ByBytes,     // the server with the fewest bytes so far
};

// ParameterServerOptions configures a ParameterServerStrategy.
struct ParameterServerOptions {
  // Returns into how many parts a variable of rank 1 or more is cut; a variable of several parts is
  // a ShardedVariable. Empty: variables are not cut.
  Partitioner variable_partitioner = {};
  // The devices of each worker, one replica on each: {"CPU:0", "CPU:1"}. Empty: one CPU.
  std::vector<std::string> devices = {};
  VariablePlacement placement = VariablePlacement::RoundRobin;
  // Whether scheduled functions whose optimizers update variables run in groups of one function per
  // worker. All functions of a group see the same variables. After the group, one update applies
  // the mean of its gradients. ClusterCoordinator::join() updates for a last, smaller group.
  bool sync = false;
  // The credentials that this process shows to the servers and demands of them.
  Credentials credentials = credentials_from_environment();
  // How long to look for a parameter server.
  std::chrono::milliseconds connect_timeout{60'000};
  // How many bytes of variables each parameter server may hold. Empty: no limit. A variable that
  // does not fit throws ResourceExhausted, which names the server and what it holds.
  std::optional<int64_t> ps_memory_bytes = std::nullopt;
};

// PlacedVariable says where a variable, or one part of it, is.
struct PlacedVariable {
  std::string name;
  std::string device;  // "/job:ps/replica:0/task:0/device:CPU:0"
  int64_t bytes = 0;
};

// TaskMemory says how much memory a task needs for variables: a parameter server for its own, a
// worker for the values and gradients of a step that uses every trainable variable densely.
struct TaskMemory {
  std::string task;  // "/job:ps/replica:0/task:0"
  int64_t bytes = 0;
};

// ParameterServerPlan says where a strategy has put its variables.
struct ParameterServerPlan {
  std::vector<PlacedVariable> variables = {};  // in the order of their creation
  std::vector<int64_t> bytes_per_ps = {};
  // What a worker reads and sends back in a step that uses every trainable variable densely.
  int64_t bytes_per_step = 0;
  std::vector<TaskMemory> memory_per_task = {};  // of parameter servers, then of workers

  int64_t total_bytes() const;
  // Returns a readable table.
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const ParameterServerPlan& plan);
};

// ParameterServerStrategy keeps one copy of every variable, on a ps task, and trains with functions
// that a ClusterCoordinator schedules on the workers. The replicas of one worker are in sync;
// workers do not wait for each other unless `sync` is set.
//
//   const TFConfigClusterResolver resolver;
//   if (serve_task(resolver)) return;  // this process is a ps or a worker
//   ParameterServerStrategy servers(resolver, {.placement = VariablePlacement::ByBytes});
//   ClusterCoordinator chief(servers);
//   Variable weight = servers.create([] { return Variable(0.f); });
class ParameterServerStrategy : public Strategy {
 public:
  // The resolver must outlive the strategy. Throws InvalidArgument if the cluster has no ps or no
  // worker tasks, jobs other than chief, worker, ps and evaluator, or more than one chief or
  // evaluator, or if this task is not in it. On the chief it finds the parameter servers
  // (Unavailable, with the names of missing servers) and deletes what an earlier chief kept on
  // them.
  explicit ParameterServerStrategy(const ClusterResolver& resolver,
                                   const ParameterServerOptions& options = {});

  // Returns where the variables created so far are.
  ParameterServerPlan plan() const;
};

// Turns this process into a server if the resolver says that it is a ps or a worker task: serves
// until the chief shuts the cluster down or SIGTERM arrives (see Server::join), then returns true.
// Returns false at once for every other task. It is for programs that run as every task of their
// cluster.
bool serve_task(const ClusterResolver& resolver);

}  // namespace cohort
