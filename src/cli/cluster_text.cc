#include "cli/cluster_text.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/raise.h"
#include "topology/address.h"
#include "topology/json_text.h"

namespace cohort::cli {
namespace {

using internal::raise;

TaskList parse_addresses(const std::string& text, const std::string& job) {
  TaskList addresses;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    (void)internal::parse_address(part);
    addresses.push_back(part);
  }
  if (addresses.empty()) {
    raise(Code::InvalidArgument, "[Cluster] the job '{}' has no addresses: {}=host:port,host:port",
          job, job);
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
            "[Cluster] '{}' is not job=host:port,host:port; jobs are separated by ;", part);
    }
    const std::string job = part.substr(0, equals);
    if (!jobs.emplace(job, parse_addresses(part.substr(equals + 1), job)).second) {
      raise(Code::InvalidArgument,
            "[Cluster] the job '{}' is given twice; list all its addresses behind one =", job);
    }
  }
  return ClusterSpec(jobs);
}

ClusterSpec parse_json(const std::string& text) {
  const nlohmann::json jobs = internal::parse_sorted_json(text, {"Cluster", "the cluster"});
  try {
    return ClusterSpec(jobs.get<std::map<std::string, TaskList>>());
  } catch (const nlohmann::json::exception& error) {
    raise(Code::InvalidArgument, "[Cluster] that is no JSON of jobs with lists of addresses: {}",
          error.what());
  }
}

}  // namespace

ClusterSpec parse_cluster(const std::string& text) {
  return text.starts_with("{") ? parse_json(text) : parse_words(text);
}

std::string tf_config_of(const ClusterSpec& cluster, const std::string& job, int index) {
  nlohmann::json jobs = nlohmann::json::object();
  for (const std::string& name : cluster.jobs()) {
    for (const int task : cluster.task_indices(name)) {
      jobs[name].push_back(cluster.task_address(name, task));
    }
  }
  nlohmann::json config{{"cluster", jobs}};
  if (!job.empty()) config["task"] = {{"type", job}, {"index", index}};
  return config.dump();
}

}  // namespace cohort::cli
