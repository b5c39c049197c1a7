#include "launch/run_directory.h"

#include <fmt/chrono.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/raise.h"
#include "base/text.h"
#include "cluster/server_status.h"
#include "cohort/scheduler_resolvers.h"
#include "launch/task_output.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

// The directory above those of this user's runs.
std::string runs_directory() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string temporary = chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
  // Absolute, because tasks may change their directory.
  return fmt::format("{}/cohort-{}", std::filesystem::absolute(temporary).string(), getuid());
}

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
  task.process = task.problem.ok() ? task.status.activity.process : 0;
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

std::vector<std::string> addresses_of(const KnownTasks& run) {
  std::vector<std::string> addresses;
  for (const AskedTask& task : run.tasks) addresses.push_back(task.address);
  return addresses;
}

// Newest first: the names of the directories begin with the time. A run that several processes of
// this machine know is listed once, as its oldest process knows it: its launcher, if that is here.
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
    if (!status.ok() || !found) continue;
    std::erase_if(runs, [addresses = addresses_of(*found)](const KnownTasks& newer) {
      return addresses_of(newer) == addresses;
    });
    runs.push_back(*std::move(found));
  }
  return runs;
}

void make_private_directory(const std::string& path) {
  struct stat about {};
  const bool made = mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST;
  if (!made || lstat(path.c_str(), &about) != 0) {
    internal::raise(Code::PermissionDenied, "[Run] the directory '{}' cannot be made: {}", path,
                    std::strerror(errno));
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != getuid() || (about.st_mode & 0077) != 0) {
    internal::raise(Code::PermissionDenied,
                    "[Run] '{}' is not a directory that only this user may open; remove it, or set "
                    "TMPDIR to another directory",
                    path);
  }
}

// Whether the launcher of the run still runs. The name of the directory ends in its process id.
bool goes_on(const std::filesystem::path& directory) {
  const std::string name = directory.filename().string();
  const std::optional<int> process = internal::parse_non_negative(name.substr(name.rfind('-') + 1));
  return process && *process > 0 && kill(*process, 0) == 0;
}

void remove_old_runs() {
  namespace fs = std::filesystem;
  constexpr auto kKept = std::chrono::days(7);
  std::error_code failed;  // another launcher may remove the same directories
  for (const auto& entry : fs::directory_iterator(runs_directory(), failed)) {
    const auto changed = entry.last_write_time(failed);
    if (failed || fs::file_time_type::clock::now() - changed < kKept || goes_on(entry.path())) {
      continue;
    }
    fs::remove_all(entry.path(), failed);
  }
}

}  // namespace

void ask_tasks(std::vector<AskedTask>& tasks, const Credentials& credentials,
               std::chrono::milliseconds limit, Asked which) {
  std::vector<std::jthread> askers;
  for (AskedTask& task : tasks) {
    if (which == Asked::Silent && task.problem.ok()) continue;
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

void write_run_file(const std::string& run_directory, const ClusterSpec& cluster,
                    const std::string& credentials_directory) {
  std::ofstream(run_directory + kRunFile) << nlohmann::json{{"process", getpid()},
                                                            {"cluster", cluster_text(cluster)},
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

std::string task_file(const std::string& run_directory, const char* kind,
                      const std::string& label) {
  return fmt::format("{}/{}-{}", run_directory, kind, label);
}

void find_silent_processes(std::vector<AskedTask>& tasks, const std::string& run_directory) {
  for (AskedTask& task : tasks) {
    if (task.process != 0 || run_directory.empty()) continue;
    pid_t process = 0;
    std::ifstream(task_file(run_directory, "process", task.label)) >> process;
    // A task may be a script that started the program, which writes its activity once it has some.
    const auto activity = internal::read_activity(task_file(run_directory, "activity", task.label));
    if (activity) process = activity->process;
    if (process > 0 && kill(process, 0) == 0) task.process = process;
  }
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
        "[Status] there are no tasks to ask: '{}' has no run that goes on; set TMPDIR as the run "
        "has it, or give addresses (cohort status host:port), or TF_CONFIG",
        runs_directory());
}

std::string make_run_directory() {
  make_private_directory(runs_directory());
  remove_old_runs();
  const std::string path = fmt::format("{}/{:%Y%m%d-%H%M%S}-{}", runs_directory(),
                                       fmt::localtime(std::time(nullptr)), getpid());
  make_private_directory(path);
  return path;
}

RunSecrets::RunSecrets(const internal::RunAuthority& authority, std::string directory)
    : authority_(authority), directory_(std::move(directory)) {
  std::filesystem::create_directories(directory_);
  std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
}

std::string RunSecrets::for_task(const TaskId& task) const {
  return issue(full_name_of(task), task.job + "-" + std::to_string(task.index));
}

std::string RunSecrets::issue(const std::string& name, const std::string& label) const {
  const std::string directory = directory_ + "/" + label;
  internal::write_credentials(directory,
                              authority_.issue({.name = name, .token = authority_.token()}));
  return directory;
}

}  // namespace cohort::cli
