#include "launch/known_tasks.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/raise.h"
#include "cluster/server_status.h"
#include "cohort/scheduler_resolvers.h"
#include "launch/run_directory.h"
#include "launch/run_layout.h"
#include "launch/task_output.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

double seconds_since_1970() {
  const std::chrono::duration<double> passed = std::chrono::system_clock::now().time_since_epoch();
  return passed.count();
}

void ask(AskedTask& task, const Credentials& credentials, std::chrono::milliseconds limit) {
  task.problem = capture_status([&] {
    const double before = seconds_since_1970();
    task.status =
        internal::ask_status(task.address, credentials, std::chrono::steady_clock::now() + limit);
    // The task read its clock at some time between the two.
    task.clock_difference = task.status.clock - (before + seconds_since_1970()) / 2;
  });
  // Only a server has these details.
  [[maybe_unused]] const Status other =
      capture_status([&] { task.server = internal::decode_server_status(task.status.details); });
}

using internal::raise;
constexpr char kRunFile[] = "/run.json";
constexpr char kProgressFile[] = "/progress.json";

// Nothing if the run is over or the file cannot be read.
std::optional<KnownTasks> read_run_file(const std::string& directory) {
  std::ifstream file(directory + kRunFile);
  const nlohmann::json run = nlohmann::json::parse(file, nullptr, false);
  if (!run.is_object()) return std::nullopt;
  const int process = run.value("process", 0);
  if (process <= 0 || kill(process, 0) != 0) return std::nullopt;
  return KnownTasks{.tasks = tasks_of(parse_cluster(run.value("cluster", ""))),
                    .credentials = credentials_named(run.value("credentials", "")),
                    .where = "the run of process " + std::to_string(process),
                    .directory = directory};
}

// Newest first: the names of the directories begin with the time.
std::vector<KnownTasks> running_runs() {
  std::error_code none;
  std::vector<std::string> directories;
  for (const auto& entry : std::filesystem::directory_iterator(runs_directory(), none)) {
    directories.push_back(entry.path().string());
  }
  std::sort(directories.rbegin(), directories.rend());
  std::vector<KnownTasks> runs;
  for (const std::string& directory : directories) {
    std::optional<KnownTasks> found;
    const Status status = capture_status([&] { found = read_run_file(directory); });
    if (status.ok() && found) runs.push_back(*std::move(found));
  }
  return runs;
}

}  // namespace

void ask_tasks(std::vector<AskedTask>& tasks, const Credentials& credentials,
               std::chrono::milliseconds limit) {
  std::vector<std::jthread> askers;
  for (AskedTask& task : tasks) {
    askers.emplace_back([&task, &credentials, limit] { ask(task, credentials, limit); });
  }
}

Credentials credentials_named(const std::string& directory) {
  if (directory.empty()) return credentials_from_environment();
  if (directory == "insecure") return {.insecure = true};
  return read_credentials(directory);
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

void write_run_file(const std::string& run_directory, const RunLayout& layout,
                    const std::string& credentials_directory) {
  std::ofstream(run_directory + kRunFile)
      << nlohmann::json{{"process", getpid()},
                        {"cluster", cluster_text(cluster_of(layout))},
                        {"credentials", credentials_directory}};
}

// The file gets its name when it is complete, so that a reader sees this file or the one before. If
// the disk is full, only the status lacks the progress.
void write_progress_file(const std::string& run_directory,
                         const std::map<std::string, std::string>& progress) {
  const std::string path = run_directory + kProgressFile;
  if (progress.empty()) {
    unlink(path.c_str());
    return;
  }
  // The note may be cut inside a letter.
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  std::ofstream(path + ".new") << nlohmann::json(progress).dump(-1, ' ', false, kReplace);
  std::rename((path + ".new").c_str(), path.c_str());
}

std::map<std::string, std::string> read_progress_file(const std::string& run_directory) {
  std::ifstream file(run_directory + kProgressFile);
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
        "[Status] no tasks to ask: no run of this user goes on here; give addresses (cohort status "
        "host:port), or TF_CONFIG");
}

}  // namespace cohort::cli
