#include "launch/run_directory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/raise.h"
#include "topology/text.h"

namespace cohort::cli {
namespace {

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
  const std::optional<int> process = internal::parse_index(name.substr(name.rfind('-') + 1));
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

std::string runs_directory() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string temporary = chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
  // Absolute, because tasks may change their directory.
  return fmt::format("{}/cohort-{}", std::filesystem::absolute(temporary).string(), getuid());
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

std::string RunSecrets::for_client() const { return issue("client", "client"); }

std::string RunSecrets::issue(const std::string& name, const std::string& label) const {
  const std::string directory = directory_ + "/" + label;
  internal::write_credentials(directory,
                              authority_.issue({.name = name, .token = authority_.token()}));
  return directory;
}

}  // namespace cohort::cli
