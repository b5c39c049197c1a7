#include "cli/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/raise.h"
#include "cli/reaper.h"

extern char** environ;

namespace cohort::cli {
namespace {

struct Pipe {
  Pipe() {
    if (pipe2(ends, O_CLOEXEC) != 0) {
      internal::raise(Code::ResourceExhausted, "[Run] no file descriptor is left: {}",
                      std::strerror(errno));
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  int keep_reader() { return std::exchange(ends[0], -1); }
  void close_writer() { close(std::exchange(ends[1], -1)); }
  int reader() const { return ends[0]; }
  int writer() const { return ends[1]; }

  int ends[2] = {-1, -1};
};

// This process's variables with those of `added` in place of its own.
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

// Its ends of the pipes.
struct Files {
  int input, output, errors;
};

// Everything that the new process needs; made before the fork, since nothing may allocate after it.
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

// Has the text ready for its reader; without one it is at its end.
void fill(Pipe& input, const std::string& text) {
  [[maybe_unused]] const ssize_t written = write(input.writer(), text.data(), text.size());
  input.close_writer();
}

// In the new process. Only returns, with errno, when the program cannot be started.
void become(const ChildStart& start, const Prepared& prepared, const Files& files) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.launcher) _exit(1);  // it ended before the line above
  if (start.reaper_end >= 0) Reaper::announce(start.reaper_end);
  default_signals();
  dup2(files.input, STDIN_FILENO);
  dup2(files.output, STDOUT_FILENO);
  dup2(files.errors, STDERR_FILENO);
  if (start.memory_limit_bytes) limit_memory(*start.memory_limit_bytes);
  if (!start.folder.empty() && chdir(start.folder.c_str()) != 0) return;
  execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
}

// Waits until the program runs; throws why it does not.
void check_started(pid_t id, const Pipe& problem, const ChildStart& start) {
  int why = 0;
  ssize_t size = 0;
  while ((size = read(problem.reader(), &why, sizeof why)) < 0 && errno == EINTR) {
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
    become(start, prepared, {input.reader(), output.writer(), errors.writer()});
    const int why = errno;
    [[maybe_unused]] const ssize_t written = write(problem.writer(), &why, sizeof why);
    _exit(127);
  }
  setpgid(id, id);  // also here: it has its group when this returns
  output.close_writer();
  errors.close_writer();
  problem.close_writer();
  check_started(id, problem, start);
  return {.id = id, .output = output.keep_reader(), .errors = errors.keep_reader()};
}

}  // namespace cohort::cli
