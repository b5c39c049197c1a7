#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cohort/credentials.h"
#include "cohort/partitioner.h"
#include "cohort/strategy.h"

// Training against parameter servers: variables live on ps tasks, steps run on worker tasks, and
// this process, the chief, says what is to be done (cohort/coordinator.h).

namespace cohort {

// Which parameter server gets the next variable.
enum class VariablePlacement {
  RoundRobin,  // one after the other
  ByBytes,     // the one that has the fewest bytes so far
};

struct ParameterServerOptions {
  // Into how many parts each variable of rank 1 or more is cut; a variable of several parts is a
  // ShardedVariable. Not cut when empty.
  Partitioner variable_partitioner = {};
  // The devices of each worker, one replica for each: {"CPU:0", "CPU:1"}. One CPU when empty.
  std::vector<std::string> devices = {};
  VariablePlacement placement = VariablePlacement::RoundRobin;
  // Scheduled functions whose optimizers update variables run in groups, one function for each
  // worker. All of a group see the same variables; when they are over there is one update, with the
  // mean of their gradients. ClusterCoordinator::join() makes the update of a last, smaller group.
  bool sync = false;
  // What is shown to the servers, and demanded of them.
  Credentials credentials = credentials_from_environment();
  // How long to look for a parameter server.
  std::chrono::milliseconds connect_timeout{60'000};
  // How many bytes of variables each parameter server has room for; 0: as many as it can get. A
  // variable that does not fit is ResourceExhausted, naming the server and what it holds.
  int64_t ps_memory_bytes = 0;
};

// Where one variable, or one part of one, is.
struct PlacedVariable {
  std::string name;
  std::string device;  // "/job:ps/replica:0/task:0/device:CPU:0"
  int64_t bytes = 0;
};

// What a task needs for the variables: a parameter server for its own, a worker for the values and
// gradients of a step that uses every trainable variable densely.
struct TaskMemory {
  std::string task;  // "/job:ps/replica:0/task:0"
  int64_t bytes = 0;
};

// What a strategy has put where.
struct ParameterServerPlan {
  std::vector<PlacedVariable> variables = {};  // in the order of their making
  std::vector<int64_t> bytes_per_ps = {};
  // What a worker reads and sends back in a step that uses every trainable variable densely.
  int64_t bytes_per_step = 0;
  std::vector<TaskMemory> memory_per_task = {};  // of parameter servers, then of workers

  int64_t total_bytes() const;
  // A table for people.
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const ParameterServerPlan& plan);
};

// Every variable has one copy, on a ps task. Code for the workers is scheduled by a
// ClusterCoordinator. The replicas of one worker are in sync; workers do not wait for each other,
// unless `sync` says so.
class ParameterServerStrategy : public Strategy {
 public:
  // The resolver must outlive it. Throws InvalidArgument for a cluster without ps or workers, with
  // other jobs than chief, worker, ps and evaluator, or with more than one chief or evaluator, and
  // for a task that is not in it. On the chief, finds the parameter servers (Unavailable, naming
  // the missing) and forgets what an earlier chief kept on them.
  explicit ParameterServerStrategy(const ClusterResolver& resolver,
                                   const ParameterServerOptions& options = {});

  // Where the variables made so far are.
  ParameterServerPlan plan() const;
};

// For programs that are every task of their cluster: where the resolver says that this task is a ps
// or a worker, serves until the chief has shut the cluster down (or SIGTERM), and returns true
// then; elsewhere returns false at once.
//
//   const TFConfigClusterResolver resolver;
//   if (serve_task(resolver)) return 0;
//   ParameterServerStrategy strategy(resolver);
bool serve_task(const ClusterResolver& resolver);

}  // namespace cohort
