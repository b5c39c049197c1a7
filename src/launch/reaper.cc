#include "launch/reaper.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "base/raise.h"
#include "base/waiting.h"

namespace cohort::cli {
namespace {

// The id of a group that began, or minus the id of a group that ended.
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

// Leaves the terminal, whose signals are not for the reaper, and closes the files of the launcher,
// so that a reader of its output does not wait for the reaper.
void detach() {
  setsid();
  prctl(PR_SET_NAME, Reaper::kProcessName);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, fd);
}

[[noreturn]] void watch(int from, const std::string& run_directory,
                        const std::string& secrets_directory) {
  detach();
  std::set<pid_t> groups;
  read_notices(from, groups);
  for (const pid_t group : groups) kill(-group, SIGKILL);
  kill_marked(run_directory);
  std::error_code ignored;
  std::filesystem::remove_all(secrets_directory, ignored);
  _exit(0);
}

constexpr char kVariable[] = "COHORT_MARKS";
constexpr char kBetween = ';';
constexpr std::chrono::milliseconds kKillLimit{500};

std::string mark_of(const std::string& run_directory, const std::string& label) {
  return run_directory + "#" + label;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The value of the variable in an environment: NAME=VALUE, separated by zeros.
std::string marks_in(const std::string& environment) {
  const std::string wanted = std::string(kVariable) + "=";
  for (size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
    if (environment.compare(at, wanted.size(), wanted) == 0) {
      return environment.c_str() + at + wanted.size();
    }
    if (environment.find('\0', at) == std::string::npos) break;
  }
  return "";
}

bool has_mark(const std::string& process, const std::string& mark, bool whole) {
  const std::string marks = kBetween + marks_in(text_of(process + "/environ")) + kBetween;
  const std::string wanted = kBetween + mark + (whole ? std::string(1, kBetween) : "");
  return marks.find(wanted) != std::string::npos;
}

// The directories of all processes in /proc.
std::vector<std::string> processes() {
  std::vector<std::string> found;
  std::error_code problem;
  for (std::filesystem::directory_iterator at("/proc", problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) found.push_back(at->path());
  }
  return found;
}

pid_t number_of(const std::string& process) {
  return std::atoi(std::filesystem::path(process).filename().c_str());
}

}  // namespace

Reaper::Reaper(const std::string& run_directory, const std::string& secrets_directory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0 || (process_ = fork()) < 0) {
    internal::raise(Code::ResourceExhausted, "[Run] the reaper of the run could not be started: {}",
                    std::strerror(errno));
  }
  if (process_ == 0) {
    close(ends[1]);
    watch(ends[0], run_directory, secrets_directory);
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

void add_mark(Environment& environment, const std::string& run_directory,
              const std::string& label) {
  const char* const present = std::getenv(kVariable);
  const std::string before = present == nullptr ? "" : std::string(present) + kBetween;
  environment[kVariable] = before + mark_of(run_directory, label);
}

void kill_marked(const std::string& run_directory, const std::string& label) {
  const std::string mark = mark_of(run_directory, label);
  // A process may fork while it is looked for, so the search goes on until it finds none.
  const auto none_is_left = [&] {
    bool any = false;
    for (const std::string& process : processes()) {
      if (!has_mark(process, mark, !label.empty())) continue;
      if (text_of(process + "/comm") == std::string(Reaper::kProcessName) + "\n") continue;
      any = kill(number_of(process), SIGKILL) == 0 || any;
    }
    return !any;
  };
  (void)internal::poll_until(std::chrono::steady_clock::now() + kKillLimit, none_is_left,
                             internal::PollPolicy::every(std::chrono::milliseconds(1)));
}

}  // namespace cohort::cli
