#pragma once

#include <string>
#include <vector>

#include "cohort/cluster.h"
#include "launch/child_process.h"

namespace cohort::cli {

// One task of a run.
struct TaskId {
  std::string job = {};
  int index = 0;
  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};
std::string label_of(const TaskId& task);      // "worker:0", for people
std::string full_name_of(const TaskId& task);  // "/job:worker/replica:0/task:0"
bool trains(const TaskId& task);               // and so has a rank

// How many tasks a run has of each kind.
struct Roles {
  int workers = 0;
  int ps = 0;
  bool chief = false;
  bool evaluator = false;
};
// Chief, workers, ps, evaluator. Throws InvalidArgument if no task trains.
std::vector<TaskId> tasks_of(const Roles& roles);

// Where each task runs and listens. The tasks of a machine are neighbours.
struct RunLayout {
  struct Place {
    TaskId task = {};
    std::string host = {};  // as others reach it
    int port = 0;
  };
  std::vector<Place> places = {};
  std::string master_host = {};  // MASTER_ADDR of torchrun
  int master_port = 0;
};

// The addresses at which tasks connect. Without the evaluator, which serves no task.
ClusterSpec cluster_of(const RunLayout& layout);

// The variables by which a program finds its place: TF_CONFIG; RANK and the other variables of
// torchrun and Open MPI, which count the tasks that train; OMP_NUM_THREADS, a share of the cores of
// the machine, unless it is set.
Environment environment_of(const RunLayout& layout, size_t place);

// Parses a cluster as users type it: "ps=h0:2222;worker=h1:2222,h2:2222", or JSON as in the
// "cluster" of TF_CONFIG. Throws InvalidArgument that says what is wrong where.
ClusterSpec parse_cluster(const std::string& text);
// The cluster as JSON, which parse_cluster() reads.
std::string cluster_text(const ClusterSpec& cluster);
// The value of TF_CONFIG for a task of the cluster.
std::string tf_config_of(const ClusterSpec& cluster, const TaskId& task);

}  // namespace cohort::cli
