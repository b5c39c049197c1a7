#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/child.h"
#include "cohort/cluster.h"

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

// How many tasks of each kind there are.
struct Roles {
  int workers = 0;
  int ps = 0;
  bool chief = false;
  bool evaluator = false;
};
// Chief, workers, ps, evaluator. InvalidArgument when there is nobody who trains.
std::vector<TaskId> tasks_of(const Roles& roles);

// Where each task runs and listens. The tasks of a machine are neighbours.
struct RunPlan {
  struct Place {
    TaskId task = {};
    std::string host = {};  // as others reach it
    int port = 0;
  };
  std::vector<Place> places = {};
  std::string master_host = {};  // for programs that make a meeting point of their own
  int master_port = 0;
};

// The addresses that tasks dial. An evaluator is not dialled, and not in it.
ClusterSpec cluster_of(const RunPlan& plan);

// What a program reads to find its place: TF_CONFIG; RANK and the other variables of torchrun and
// Open MPI, which count the tasks that train; a share of the machine's cores unless somebody chose.
Environment environment_of(const RunPlan& plan, size_t place);

}  // namespace cohort::cli
