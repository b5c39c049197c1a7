#include "launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/raise.h"
#include "base/read_file.h"
#include "base/waiting.h"
#include "cohort/error.h"
#include "launch/event_loop.h"
#include "launch/process_state.h"

namespace cohort::cli {
namespace {

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    (void)pipe2(ends, O_CLOEXEC);
    reader = checked_descriptor(internal::FileDescriptor(ends[0]));
    writer = checked_descriptor(internal::FileDescriptor(ends[1]));
  }
  internal::FileDescriptor reader, writer;
};

// The variables of this process, replaced by those of `added` where both have one.
std::vector<std::string> merged(const Environment& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// The ends of the pipes that the new process gets.
struct Files {
  int input, output, errors;
};

// Everything that the new process needs. Made before the fork, because nothing may allocate after
// it.
struct Prepared {
  explicit Prepared(const ChildStart& start)
      : words(start.command), variables(merged(start.environment)) {}
  std::vector<std::string> words;
  std::vector<std::string> variables;
  std::vector<char*> arguments = pointers(words);
  std::vector<char*> environment = pointers(variables);
  pid_t launcher = getpid();
};

void default_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) {
    std::signal(signal, SIG_DFL);
  }
}

void limit_memory(uint64_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  setrlimit(RLIMIT_DATA, &limit);
}

// Puts the text into the pipe and closes its writing end.
void fill(Pipe& input, const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(input.writer.get(), text.data(), text.size());
  input.writer = {};
}

// Runs in the new process. Returns, with errno, only if the program cannot be started.
void become(const ChildStart& start, const Prepared& prepared, const Files& files) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.launcher) _exit(1);  // the launcher ended before the line above
  if (start.reaper_end >= 0) Reaper::announce(start.reaper_end);
  default_signals();
  dup2(files.input, STDIN_FILENO);
  dup2(files.output, STDOUT_FILENO);
  dup2(files.errors, STDERR_FILENO);
  if (start.memory_limit_bytes) limit_memory(*start.memory_limit_bytes);
  if (!start.directory.empty() && chdir(start.directory.c_str()) != 0) return;
  execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
}

// Waits until the program runs. Throws if it cannot be started.
void check_started(pid_t id, const Pipe& problem, const ChildStart& start) {
  int why = 0;
  ssize_t size = 0;
  while ((size = read(problem.reader.get(), &why, sizeof why)) < 0 && errno == EINTR) {
  }
  if (size != sizeof why) return;
  waitpid(id, nullptr, 0);
  const char* const remedy = why == ENOENT ? "; is the path right (./program), or is it in PATH?"
                             : why == EACCES
                                 ? "; is it a program, and may it be executed (chmod +x)?"
                                 : "";
  internal::raise(Code::InvalidArgument, "[Run] '{}' cannot be started: {}{}", start.command.at(0),
                  std::strerror(why), remedy);
}

// Adds the bytes that can be read; false at the end.
bool read_some(int from, std::string& text) {
  char block[16 << 10];
  const ssize_t size = read(from, block, sizeof block);
  if (size > 0) text.append(block, static_cast<size_t>(size));
  return size > 0;
}

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

std::string text_of(const std::string& path) { return internal::read_file(path).value_or(""); }

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

}  // namespace

Child start_child(const ChildStart& start) {
  const Prepared prepared(start);
  Pipe input, output, errors, problem;
  fill(input, start.input);
  const pid_t id = fork();
  if (id < 0) {
    internal::raise(Code::ResourceExhausted, "[Run] no process can be started: {}",
                    std::strerror(errno));
  }
  if (id == 0) {
    become(start, prepared, {input.reader.get(), output.writer.get(), errors.writer.get()});
    const int why = errno;
    [[maybe_unused]] const ssize_t written = write(problem.writer.get(), &why, sizeof why);
    _exit(127);
  }
  setpgid(id, id);  // also here, so that the group exists when this function returns
  for (Pipe* const pipe : {&output, &errors, &problem}) pipe->writer = {};
  check_started(id, problem, start);
  return {.id = id, .output = std::move(output.reader), .errors = std::move(errors.reader)};
}

std::string captured_output(const std::vector<std::string>& command,
                            std::chrono::milliseconds limit) {
  Child child;
  if (!capture_status([&] { child = start_child({.command = command}); }).ok()) return "";
  std::string text, ignored;
  Poller poller;
  int open_files = 2;
  const auto watch = [&](int fd, std::string& into) {
    poller.watch(fd, [&, fd] {
      if (read_some(fd, into)) return;
      poller.forget(fd);
      --open_files;
    });
  };
  watch(child.output.get(), text);
  watch(child.errors.get(), ignored);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (open_files > 0 && std::chrono::steady_clock::now() < deadline) {
    poller.wait(std::chrono::milliseconds(50));
  }
  kill(-child.id, SIGKILL);
  waitpid(child.id, nullptr, 0);
  return text;
}

std::string helper_file(const std::string& name) {
  std::error_code problem;
  const auto directory = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
  for (const char* place : {".", "../libexec/cohort"}) {
    const auto path = directory / place / name;
    if (std::filesystem::exists(path, problem)) return path.lexically_normal().string();
  }
  return "";
}

void exec_helper(const std::vector<std::string>& words, const Environment& environment) {
  const std::string program = helper_file("cohort-compute");
  std::vector<std::string> command{program};
  command.insert(command.end(), words.begin(), words.end());
  const std::vector<char*> arguments = pointers(command);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  if (!program.empty()) execv(program.c_str(), arguments.data());
  internal::raise(Code::NotFound,
                  "[Cohort] the program cohort-compute cannot be started: {}; install it beside "
                  "the command, or in ../libexec/cohort",
                  program.empty() ? "the file does not exist" : std::strerror(errno));
}

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
    std::error_code ignored;
    for (const pid_t process : numbers_in("/proc", ignored)) {
      const std::string directory = "/proc/" + std::to_string(process);
      if (!has_mark(directory, mark, !label.empty())) continue;
      if (text_of(directory + "/comm") == std::string(Reaper::kProcessName) + "\n") continue;
      any = kill(process, SIGKILL) == 0 || any;
    }
    return !any;
  };
  (void)internal::poll_until(std::chrono::steady_clock::now() + kKillLimit, none_is_left,
                             internal::PollPolicy::every(std::chrono::milliseconds(1)));
}

}  // namespace cohort::cli
