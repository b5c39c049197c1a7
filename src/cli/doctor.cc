#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/raise.h"
#include "cli/command.h"
#include "cohort/scheduler_resolvers.h"
#include "launch/known_tasks.h"
#include "launch/run_layout.h"
#include "topology/text.h"

namespace cohort::cli {
namespace {

std::string nearest_role(const std::string& name) {
  static const std::array<std::string, 4> roles = {"chief", "worker", "ps", "evaluator"};
  const std::string* const role = internal::closest_word(name, roles, 2);
  return role == nullptr ? name : *role;
}

// Spells the roles right and makes numbers of texts.
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

void report_tf_config(const Status& problem, const Report& report) {
  report(Finding::Bad, "cluster", problem.message);
  const char* const text = std::getenv("TF_CONFIG");
  if (text == nullptr) return;
  if (const auto better = corrected_tf_config(text)) {
    report(Finding::Remark, "cluster", "perhaps this was meant: TF_CONFIG='" + *better + "'");
  }
}

constexpr char kDoctorExample[] =
    "Examples:\n"
    "  cohort doctor                        # this machine, and the cluster of TF_CONFIG or Slurm\n"
    "  cohort doctor --cluster 'ps=h0:2222;worker=h1:2222'\n"
    "  cohort run -n 4 cohort doctor        # every task dials every other";

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
  const Report report = [&bad](Finding finding, const std::string& about, const std::string& text) {
    constexpr const char* kMarks[] = {"ok  ", "note", "BAD "};
    bad = bad || finding == Finding::Bad;
    fmt::print("{} {:<12} {}\n", kMarks[static_cast<size_t>(finding)], about, text);
    std::fflush(stdout);
  };
  examine_machine(report);
  DoctorCluster cluster;
  const Status found = capture_status([&] { cluster = find_cluster(options); });
  if (!found.ok()) {
    report_tf_config(found, report);
    return 1;
  }
  if (!cluster.cluster) {
    report(Finding::Remark, "cluster", "no cluster is described: give --cluster, or set TF_CONFIG");
    return bad ? 1 : 0;
  }
  report(Finding::Good, "cluster", cluster.cluster.to_string());
  const Credentials credentials = credentials_named(options.credentials);
  examine_names(cluster, report);
  examine_credentials(cluster, credentials, report);
  examine_connections(cluster, credentials, options.limit, report);
  return bad ? 1 : 0;
}

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("doctor", "Examine this machine and a cluster");
  command->footer(kDoctorExample);
  const auto typed = std::make_shared<DoctorOptions>();
  const auto seconds = std::make_shared<double>(10);
  command->add_option("--cluster", typed->cluster, "Jobs and addresses, as for cohort serve");
  command->add_option("--credentials", typed->credentials, kCredentialsHelp);
  command->add_option("--timeout", *seconds, "Seconds to wait for other tasks (10)")
      ->check(number_between(0, 3600));
  command->callback([typed, seconds, &exit_code] {
    if (!typed->cluster.empty()) (void)parse_cluster(typed->cluster);  // throws if it is wrong
    typed->limit = std::chrono::milliseconds(static_cast<int64_t>(*seconds * 1000));
    exit_code = examine(*typed);
  });
}

}  // namespace cohort::cli
