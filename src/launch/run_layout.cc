#include "launch/run_layout.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/machine.h"
#include "base/raise.h"
#include "topology/address.h"
#include "topology/json_text.h"

namespace cohort::cli {
namespace {

using internal::raise;

// The number of a task among those that train, and how many train.
struct Rank {
  int rank = 0;
  int size = 0;
};
template <typename Counts>
Rank rank_among(const RunLayout& layout, size_t place, const Counts& counts) {
  Rank found;
  for (size_t i = 0; i < layout.places.size(); ++i) {
    if (!counts(layout.places[i])) continue;
    if (i < place) ++found.rank;
    ++found.size;
  }
  return found;
}

Rank rank_on_host(const RunLayout& layout, size_t place) {
  const std::string& host = layout.places[place].host;
  return rank_among(layout, place,
                    [&](const auto& at) { return trains(at.task) && at.host == host; });
}

void add_ranks(const RunLayout& layout, size_t place, Environment& variables) {
  const Rank all = rank_among(layout, place, [](const auto& at) { return trains(at.task); });
  const Rank here = rank_on_host(layout, place);
  const auto set = [&](std::initializer_list<const char*> names, int value) {
    for (const char* name : names) variables[name] = std::to_string(value);
  };
  set({"RANK", "OMPI_COMM_WORLD_RANK"}, all.rank);
  set({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"}, all.size);
  set({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}, here.rank);
  set({"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}, here.size);
  variables["MASTER_ADDR"] = layout.master_host;
  variables["MASTER_PORT"] = std::to_string(layout.master_port);
}

// The cores of a machine for each of its tasks that train.
int cores_per_task(const RunLayout& layout, size_t place) {
  const int cores = static_cast<int>(internal::core_count());
  return std::max(1, cores / std::max(1, rank_on_host(layout, place).size));
}

TaskList parse_addresses(const std::string& text, const std::string& job) {
  TaskList addresses;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    (void)internal::parse_address(part);
    addresses.push_back(part);
  }
  if (addresses.empty()) {
    raise(Code::InvalidArgument,
          "[Cluster] the job '{}' has no addresses; expected {}=host:port,host:port", job, job);
  }
  return addresses;
}

ClusterSpec parse_words(const std::string& text) {
  std::map<std::string, TaskList> jobs;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      raise(Code::InvalidArgument,
            "[Cluster] '{}' is not job=host:port,host:port; separate jobs by ;", part);
    }
    const std::string job = part.substr(0, equals);
    if (!jobs.emplace(job, parse_addresses(part.substr(equals + 1), job)).second) {
      raise(Code::InvalidArgument,
            "[Cluster] the job '{}' is given twice; list all its addresses after one =", job);
    }
  }
  return ClusterSpec(jobs);
}

ClusterSpec parse_json(const std::string& text) {
  const nlohmann::json jobs = internal::parse_sorted_json(text, {"Cluster", "the cluster"});
  try {
    return ClusterSpec(jobs.get<std::map<std::string, TaskList>>());
  } catch (const nlohmann::json::exception& error) {
    raise(Code::InvalidArgument,
          "[Cluster] the cluster must be JSON of jobs with lists of addresses: {}", error.what());
  }
}

nlohmann::json json_of(const ClusterSpec& cluster) {
  nlohmann::json jobs = nlohmann::json::object();
  for (const std::string& job : cluster.jobs()) {
    for (const int task : cluster.task_indices(job)) {
      jobs[job].push_back(cluster.task_address(job, task));
    }
  }
  return jobs;
}

}  // namespace

std::string label_of(const TaskId& task) { return fmt::format("{}:{}", task.job, task.index); }

bool trains(const TaskId& task) { return task.job == "chief" || task.job == "worker"; }

std::string full_name_of(const TaskId& task) { return internal::task_name(task.job, task.index); }

std::vector<TaskId> tasks_of(const Roles& roles) {
  if (roles.workers + (roles.chief ? 1 : 0) < 1) {
    raise(Code::InvalidArgument,
          "[Run] no task trains: give -n or --workers at least 1, or --chief");
  }
  std::vector<TaskId> tasks;
  if (roles.chief) tasks.push_back({"chief", 0});
  for (int i = 0; i < roles.workers; ++i) tasks.push_back({"worker", i});
  for (int i = 0; i < roles.ps; ++i) tasks.push_back({"ps", i});
  if (roles.evaluator) tasks.push_back({"evaluator", 0});
  return tasks;
}

ClusterSpec cluster_of(const RunLayout& layout) {
  std::map<std::string, TaskMap> jobs;
  for (const RunLayout::Place& place : layout.places) {
    if (place.task.job == "evaluator") continue;
    jobs[place.task.job][place.task.index] = internal::address_text(place.host, place.port);
  }
  return ClusterSpec(jobs);
}

Environment environment_of(const RunLayout& layout, size_t place) {
  const TaskId& task = layout.places.at(place).task;
  Environment variables{{"TF_CONFIG", tf_config_of(cluster_of(layout), task)},
                        {"COHORT_TASK", label_of(task)}};
  if (trains(task)) add_ranks(layout, place, variables);
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables["OMP_NUM_THREADS"] = std::to_string(cores_per_task(layout, place));
  }
  return variables;
}

ClusterSpec parse_cluster(const std::string& text) {
  return text.starts_with("{") ? parse_json(text) : parse_words(text);
}

std::string cluster_text(const ClusterSpec& cluster) { return json_of(cluster).dump(); }

std::string tf_config_of(const ClusterSpec& cluster, const TaskId& task) {
  return nlohmann::json{{"cluster", json_of(cluster)},
                        {"task", {{"type", task.job}, {"index", task.index}}},
                        {"rpc_layer", "grpc"}}
      .dump();
}

}  // namespace cohort::cli
