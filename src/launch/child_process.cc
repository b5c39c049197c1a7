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
#include <utility>

#include "base/raise.h"
#include "cohort/error.h"
#include "launch/event_loop.h"
#include "launch/reaper.h"

namespace cohort::cli {
namespace {

struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    (void)pipe2(ends, O_CLOEXEC);
    reader = checked_descriptor(ends[0]);
    writer = checked_descriptor(ends[1]);
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
  internal::raise(
      Code::NotFound,
      "[Cohort] the program cohort-compute cannot be started: {}; it belongs beside the "
      "command, or in ../libexec/cohort",
      program.empty() ? "it is not there" : std::strerror(errno));
}

}  // namespace cohort::cli
