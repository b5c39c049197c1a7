#include "cli/reaper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/raise.h"
#include "cli/leftovers.h"

namespace cohort::cli {
namespace {

// What travels: the id of a group that began, or minus that of one that ended.
using Notice = pid_t;

void read_notices(int from, std::set<pid_t>& groups) {
  Notice notice = 0;
  for (;;) {
    const ssize_t size = read(from, &notice, sizeof notice);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof notice) return;
    if (notice > 0) {
      groups.insert(notice);
    } else {
      groups.erase(-notice);
    }
  }
}

// Out of reach of the terminal's signals, and of the launcher's files: a reader of its output is
// not to wait for this process.
void detach() {
  setsid();
  prctl(PR_SET_NAME, Reaper::kProcessName);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, fd);
}

[[noreturn]] void watch(int from, const std::string& run_folder,
                        const std::string& secrets_folder) {
  detach();
  std::set<pid_t> groups;
  read_notices(from, groups);
  for (const pid_t group : groups) kill(-group, SIGKILL);
  kill_marked(run_folder);
  std::error_code ignored;
  std::filesystem::remove_all(secrets_folder, ignored);
  _exit(0);
}

}  // namespace

Reaper::Reaper(const std::string& run_folder, const std::string& secrets_folder) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0 || (process_ = fork()) < 0) {
    internal::raise(Code::ResourceExhausted, "[Run] the reaper of the run could not be started: {}",
                    std::strerror(errno));
  }
  if (process_ == 0) {
    close(ends[1]);
    watch(ends[0], run_folder, secrets_folder);
  }
  close(ends[0]);
  end_ = ends[1];
}

Reaper::~Reaper() {
  close(end_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Reaper::announce(int reaper_end) {
  const Notice self = getpid();
  [[maybe_unused]] const ssize_t written = write(reaper_end, &self, sizeof self);
}

void Reaper::ended(pid_t group) const {
  const Notice notice = -group;
  [[maybe_unused]] const ssize_t written = write(end_, &notice, sizeof notice);
}

}  // namespace cohort::cli
