#include "cli/known_tasks.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/raise.h"
#include "cli/cluster_text.h"
#include "cli/run_folder.h"
#include "cli/task_output.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

using internal::raise;
constexpr char kRunFile[] = "/run.json";
constexpr char kProgressFile[] = "/progress.json";

// Nothing when the run is over, or the file is no such file.
std::optional<KnownTasks> read_run_file(const std::string& folder) {
  std::ifstream file(folder + kRunFile);
  const nlohmann::json run = nlohmann::json::parse(file, nullptr, false);
  if (!run.is_object()) return std::nullopt;
  const int process = run.value("process", 0);
  if (process <= 0 || kill(process, 0) != 0) return std::nullopt;
  return KnownTasks{.tasks = tasks_of(parse_cluster(run.value("cluster", ""))),
                    .credentials = credentials_named(run.value("credentials", "")),
                    .where = "the run of process " + std::to_string(process),
                    .folder = folder};
}

// Names of runs' folders begin with the time.
std::vector<KnownTasks> running_runs() {
  std::error_code none;
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(runs_folder(), none)) {
    folders.push_back(entry.path().string());
  }
  std::sort(folders.rbegin(), folders.rend());
  std::vector<KnownTasks> runs;
  for (const std::string& folder : folders) {
    std::optional<KnownTasks> found;
    const Status status = capture_status([&] { found = read_run_file(folder); });
    if (status.ok() && found) runs.push_back(*std::move(found));
  }
  return runs;
}

}  // namespace

Credentials credentials_named(const std::string& folder) {
  if (folder.empty()) return credentials_from_environment();
  if (folder == "insecure") return {.insecure = true};
  return read_credentials(folder);
}

std::vector<AskedTask> tasks_of(const ClusterSpec& cluster) {
  std::vector<AskedTask> tasks;
  for (const std::string& job : cluster.jobs()) {
    for (const int index : cluster.task_indices(job)) {
      tasks.push_back(
          {.label = label_of({job, index}), .address = cluster.task_address(job, index)});
    }
  }
  return tasks;
}

void write_run_file(const std::string& run_folder, const RunPlan& plan,
                    const std::string& credentials_folder) {
  const std::string config = tf_config_of(cluster_of(plan), "", 0);
  std::ofstream(run_folder + kRunFile)
      << nlohmann::json{{"process", getpid()},
                        {"cluster", nlohmann::json::parse(config).at("cluster").dump()},
                        {"credentials", credentials_folder}};
}

// A reader sees this file or the one before: a file takes its name when it is complete. What cannot
// be written, since a disk is full, is missing in the status and nowhere else.
void write_progress_file(const std::string& run_folder,
                         const std::map<std::string, std::string>& progress) {
  const std::string path = run_folder + kProgressFile;
  if (progress.empty()) {
    unlink(path.c_str());
    return;
  }
  // A note may end within a letter.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  std::ofstream(path + ".new") << nlohmann::json(progress).dump(-1, ' ', false, kReplace);
  std::rename((path + ".new").c_str(), path.c_str());
}

std::map<std::string, std::string> read_progress_file(const std::string& run_folder) {
  std::ifstream file(run_folder + kProgressFile);
  const nlohmann::json read = nlohmann::json::parse(file, nullptr, false);
  std::map<std::string, std::string> progress;
  if (!read.is_object()) return progress;
  for (const auto& [label, text] : read.items()) {
    if (text.is_string()) progress[label] = printable(text.get<std::string>());
  }
  return progress;
}

std::vector<KnownTasks> find_tasks(const std::vector<std::string>& addresses,
                                   const std::string& credentials) {
  KnownTasks known{.credentials = credentials_named(credentials), .where = "the command line"};
  for (const std::string& address : addresses) {
    (void)internal::parse_address(address);
    known.tasks.push_back({.address = address});
  }
  if (!addresses.empty()) return {known};
  known.tasks = tasks_of(resolver_from_environment()->cluster_spec());
  known.where = "the environment";
  if (!known.tasks.empty()) return {known};
  std::vector<KnownTasks> runs = running_runs();
  if (!runs.empty()) return runs;
  raise(Code::NotFound,
        "[Status] whom to ask? No run of this user goes on here; give addresses (cohort status "
        "host:port), or TF_CONFIG");
}

}  // namespace cohort::cli
