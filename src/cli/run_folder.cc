#include "cli/run_folder.h"

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

void make_private_folder(const std::string& path) {
  struct stat about {};
  const bool made = mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST;
  if (!made || lstat(path.c_str(), &about) != 0) {
    internal::raise(Code::PermissionDenied, "[Run] the folder '{}' cannot be made: {}", path,
                    std::strerror(errno));
  }
  if (!S_ISDIR(about.st_mode) || about.st_uid != getuid() || (about.st_mode & 0077) != 0) {
    internal::raise(Code::PermissionDenied,
                    "[Run] '{}' is not a folder that only this user may open; remove it, or set "
                    "TMPDIR to another folder",
                    path);
  }
}

// Whether the launcher of the run goes on; the folder's name ends in the number of its process.
bool goes_on(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  const std::optional<int> process = internal::parse_index(name.substr(name.rfind('-') + 1));
  return process && *process > 0 && kill(*process, 0) == 0;
}

void remove_old_runs() {
  namespace fs = std::filesystem;
  constexpr auto kKept = std::chrono::days(7);
  std::error_code failed;  // another launcher may remove the same folders
  for (const auto& entry : fs::directory_iterator(runs_folder(), failed)) {
    const auto changed = entry.last_write_time(failed);
    if (failed || fs::file_time_type::clock::now() - changed < kKept || goes_on(entry.path())) {
      continue;
    }
    fs::remove_all(entry.path(), failed);
  }
}

}  // namespace

std::string runs_folder() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string temporary = chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
  // Tasks may change their folder.
  return fmt::format("{}/cohort-{}", std::filesystem::absolute(temporary).string(), getuid());
}

std::string make_run_folder() {
  make_private_folder(runs_folder());
  remove_old_runs();
  const std::string path = fmt::format("{}/{:%Y%m%d-%H%M%S}-{}", runs_folder(),
                                       fmt::localtime(std::time(nullptr)), getpid());
  make_private_folder(path);
  return path;
}

std::string companion_file(const std::string& name) {
  std::error_code problem;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
  for (const char* place : {".", "../libexec/cohort"}) {
    const auto path = folder / place / name;
    if (std::filesystem::exists(path, problem)) return path.lexically_normal().string();
  }
  return "";
}

}  // namespace cohort::cli
