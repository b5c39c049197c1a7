#include "cli/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/raise.h"

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

}  // namespace

std::string runs_folder() {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string temporary = chosen == nullptr || *chosen == '\0' ? "/tmp" : chosen;
  // Tasks may change their folder.
  return fmt::format("{}/cohort-{}", std::filesystem::absolute(temporary).string(), getuid());
}

std::string make_run_folder() {
  make_private_folder(runs_folder());
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
