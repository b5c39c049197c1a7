#include "distribute/backup_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr size_t kMaxCommand = 200;

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words(std::istreambuf_iterator<char>(file), {});
  std::replace(words.begin(), words.end(), '\0', ' ');
  std::replace(words.begin(), words.end(), '\n', ' ');
  return words.substr(0, std::min(kMaxCommand, words.find_last_not_of(' ') + 1));
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

// The host, and on the next line what people want to know of the run.
std::string own_note() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  return fmt::format("{}\nprocess {} on host {}, run '{}'{}, since {}\n", host_name(), getpid(),
                     host_name(), command_line(),
                     job == nullptr ? "" : fmt::format(" of Slurm job {}", job), time_now());
}

std::string read_note(int file) {
  std::array<char, 1024> bytes{};
  const ssize_t size = ::pread(file, bytes.data(), bytes.size(), 0);
  return size > 0 ? std::string(bytes.data(), static_cast<size_t>(size)) : "";
}

std::string host_in(const std::string& note) { return note.substr(0, note.find('\n')); }

std::string owner_in(const std::string& note) {
  const size_t begin = note.find('\n');
  const size_t end = begin == std::string::npos ? begin : note.find('\n', begin + 1);
  if (end == std::string::npos) return "a process that has just begun";
  return note.substr(begin + 1, end - begin - 1);
}

int open_lock(const std::string& folder, const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);  // open() says what is wrong
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file >= 0) return file;
  raise(errno == EACCES || errno == EROFS ? Code::PermissionDenied : Code::FailedPrecondition,
        "[Backup] cannot open '{}': {}", path, std::strerror(errno));
}

void write_note(int file, const std::string& note, const std::string& path) {
  const bool written = ::ftruncate(file, 0) == 0 && ::pwrite(file, note.data(), note.size(), 0) ==
                                                        static_cast<ssize_t>(note.size());
  if (!written) log_warning("[Backup] cannot write '{}': {}", path, std::strerror(errno));
}

}  // namespace

BackupLock::BackupLock(const std::string& folder)
    : path_(folder + "/lock"), file_(open_lock(folder, path_)) {
  const bool locked = ::flock(file_, LOCK_EX | LOCK_NB) == 0;
  const int problem = locked ? 0 : errno;
  const std::string note = read_note(file_);
  if (problem == EWOULDBLOCK) {
    ::close(file_);
    raise(Code::FailedPrecondition,
          "[Backup] the folder '{}' is in use by {}; wait until that run has ended, or choose "
          "another folder",
          folder, owner_in(note));
  }
  if (!locked) {
    log_warning("[Backup] '{}' cannot be locked ({}): no other run may use the folder", path_,
                std::strerror(problem));
  }
  if (!note.empty() && host_in(note) != host_name()) {
    log_warning(
        "[Backup] the folder '{}' was last used by {}, which did not end properly; if that process "
        "still runs, stop it: this file system may not share locks between hosts",
        folder, owner_in(note));
  }
  write_note(file_, own_note(), path_);
}

BackupLock::~BackupLock() {
  write_note(file_, "", path_);
  ::close(file_);
}

}  // namespace cohort::internal
