#include "cli/run_plan.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/raise.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

// A task's number among those that train, and how many those are.
struct Rank {
  int rank = 0;
  int size = 0;
};
template <typename Counts>
Rank rank_among(const RunPlan& plan, size_t place, const Counts& counts) {
  Rank found;
  for (size_t i = 0; i < plan.places.size(); ++i) {
    if (!counts(plan.places[i])) continue;
    if (i < place) ++found.rank;
    ++found.size;
  }
  return found;
}

std::string tf_config(const RunPlan& plan, const TaskId& task) {
  nlohmann::json cluster = nlohmann::json::object();
  for (const RunPlan::Place& place : plan.places) {
    if (place.task.job == "evaluator") continue;
    cluster[place.task.job].push_back(internal::address_text(place.host, place.port));
  }
  return nlohmann::json{{"cluster", cluster},
                        {"task", {{"type", task.job}, {"index", task.index}}},
                        {"rpc_layer", "grpc"}}
      .dump();
}

void add_ranks(const RunPlan& plan, size_t place, Environment& variables) {
  const std::string& host = plan.places[place].host;
  const Rank all = rank_among(plan, place, [](const auto& at) { return trains(at.task); });
  const Rank here =
      rank_among(plan, place, [&](const auto& at) { return trains(at.task) && at.host == host; });
  const auto set = [&](std::initializer_list<const char*> names, int value) {
    for (const char* name : names) variables[name] = std::to_string(value);
  };
  set({"RANK", "OMPI_COMM_WORLD_RANK"}, all.rank);
  set({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}, all.size);
  set({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}, here.rank);
  set({"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, here.size);
  variables["MASTER_ADDR"] = plan.master_host;
  variables["MASTER_PORT"] = std::to_string(plan.master_port);
}

// Cores of this machine for each of its tasks that train.
int cores_per_task(const RunPlan& plan, size_t place) {
  const std::string& host = plan.places[place].host;
  const auto here = std::count_if(plan.places.begin(), plan.places.end(), [&](const auto& at) {
    return trains(at.task) && at.host == host;
  });
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, static_cast<int>(here)));
}

}  // namespace

std::string label_of(const TaskId& task) { return fmt::format("{}:{}", task.job, task.index); }

bool trains(const TaskId& task) { return task.job == "chief" || task.job == "worker"; }

std::string full_name_of(const TaskId& task) {
  return fmt::format("/job:{}/replica:0/task:{}", task.job, task.index);
}

std::vector<TaskId> tasks_of(const Roles& roles) {
  if (roles.workers + (roles.chief ? 1 : 0) < 1) {
    internal::raise(
        Code::InvalidArgument,
        "[Run] there is nobody who trains: give -n or --workers at least 1, or --chief");
  }
  std::vector<TaskId> tasks;
  if (roles.chief) tasks.push_back({"chief", 0});
  for (int i = 0; i < roles.workers; ++i) tasks.push_back({"worker", i});
  for (int i = 0; i < roles.ps; ++i) tasks.push_back({"ps", i});
  if (roles.evaluator) tasks.push_back({"evaluator", 0});
  return tasks;
}

ClusterSpec cluster_of(const RunPlan& plan) {
  std::map<std::string, TaskMap> jobs;
  for (const RunPlan::Place& place : plan.places) {
    if (place.task.job == "evaluator") continue;
    jobs[place.task.job][place.task.index] = internal::address_text(place.host, place.port);
  }
  return ClusterSpec(jobs);
}

Environment environment_of(const RunPlan& plan, size_t place) {
  const TaskId& task = plan.places.at(place).task;
  Environment variables{{"TF_CONFIG", tf_config(plan, task)}, {"COHORT_TASK", label_of(task)}};
  if (trains(task)) add_ranks(plan, place, variables);
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables["OMP_NUM_THREADS"] = std::to_string(cores_per_task(plan, place));
  }
  return variables;
}

}  // namespace cohort::cli
