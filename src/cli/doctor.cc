#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/raise.h"
#include "cli/cluster_text.h"
#include "cli/known_tasks.h"
#include "cohort/scheduler_resolvers.h"

namespace cohort::cli {
namespace {

constexpr std::array kRoles = {"chief", "worker", "ps", "evaluator"};

// How many letters must be put in, left out or changed.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

std::string nearest_role(const std::string& name) {
  for (const char* role : kRoles) {
    if (distance(name, role) <= 2) return role;
  }
  return name;
}

// TF_CONFIG with roles spelled right, and numbers that are texts as numbers.
nlohmann::json corrected(const nlohmann::json& config) {
  nlohmann::json result = config;
  result["cluster"] = nlohmann::json::object();
  const nlohmann::json cluster = config.value("cluster", nlohmann::json::object());
  for (const auto& [job, tasks] : cluster.items()) {
    result["cluster"][nearest_role(job)] =
        tasks.is_string() ? nlohmann::json::array({tasks}) : tasks;
  }
  if (!config.contains("task")) return result;
  result["task"]["type"] = nearest_role(config["task"].value("type", ""));
  const nlohmann::json& index = config["task"]["index"];
  if (index.is_string()) result["task"]["index"] = std::stoi(index.get<std::string>());
  return result;
}

DoctorCluster find_cluster(const DoctorOptions& options) {
  if (!options.cluster.empty()) return {.cluster = parse_cluster(options.cluster)};
  const auto resolver = resolver_from_environment();
  DoctorCluster found{.cluster = resolver->cluster_spec()};
  const auto job = resolver->task_type();
  const auto index = resolver->task_id();
  if (job && found.cluster) validate_task(found.cluster, job, index);
  if (job && index && found.cluster.has_task(*job, *index)) found.self = TaskId{*job, *index};
  return found;
}

void tell_about_tf_config(const Status& problem, const Tell& tell) {
  tell(Finding::Bad, "cluster", problem.message);
  const char* const text = std::getenv("TF_CONFIG");
  if (text == nullptr) return;
  if (const auto better = corrected_tf_config(text)) {
    tell(Finding::Remark, "cluster", "perhaps this was meant: TF_CONFIG='" + *better + "'");
  }
}

}  // namespace

std::optional<std::string> corrected_tf_config(const std::string& text) {
  try {
    const nlohmann::json config = nlohmann::json::parse(text);
    const nlohmann::json better = corrected(config);
    return better == config ? std::nullopt : std::optional(better.dump());
  } catch (const std::exception&) {
    return std::nullopt;  // not JSON, or of another form
  }
}

int examine(const DoctorOptions& options) {
  bool bad = false;
  const Tell tell = [&bad](Finding finding, const std::string& about, const std::string& text) {
    constexpr const char* kMarks[] = {"ok  ", "note", "BAD "};
    bad = bad || finding == Finding::Bad;
    fmt::print("{} {:<12} {}\n", kMarks[static_cast<size_t>(finding)], about, text);
    std::fflush(stdout);
  };
  examine_machine(tell);
  DoctorCluster cluster;
  const Status found = capture_status([&] { cluster = find_cluster(options); });
  if (!found.ok()) {
    tell_about_tf_config(found, tell);
    return 1;
  }
  if (!cluster.cluster) {
    tell(Finding::Remark, "cluster", "none is described: give --cluster, or set TF_CONFIG");
    return bad ? 1 : 0;
  }
  tell(Finding::Good, "cluster", cluster.cluster.to_string());
  const Credentials credentials = credentials_named(options.credentials);
  examine_names(cluster, tell);
  examine_credentials(cluster, credentials, tell);
  examine_connections(cluster, credentials, options.limit, tell);
  return bad ? 1 : 0;
}

}  // namespace cohort::cli
