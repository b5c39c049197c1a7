#include "launch/local_tasks.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "cohort/error.h"
#include "launch/run_directory.h"

namespace cohort::cli {
namespace {

constexpr size_t kLastLines = 50;
constexpr size_t kLastLineBytes = 4096;
constexpr auto kDeadlockLimit = std::chrono::seconds(5);
constexpr auto kAbortLimit = std::chrono::seconds(3);

std::string joined(const char* name, const std::string& added, char separator) {
  const char* const present = std::getenv(name);
  if (present == nullptr || *present == '\0') return added;
  return std::string(present) + separator + added;
}

// Kills the rest of the process group of a task that has ended.
void kill_rest(pid_t group) {
  kill(-group, SIGKILL);
  while (waitpid(-group, nullptr, 0) > 0) {
  }
}

}  // namespace

LocalTasks::LocalTasks(Poller& poller, const Reaper& reaper, std::string directory,
                       CrashReports reports, TaskEvents events)
    : poller_(poller),
      reaper_(reaper),
      directory_(std::move(directory)),
      preload_(reports == CrashReports::None ? "" : helper_file("libcohort_crash_report.so")),
      events_(std::move(events)),
      memory_kills_(memory_.kills()) {
  // The orphans of tasks become children of this process, which waits for them.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  poller_.watch(places_.file(), [this] { places_.deliver(); });
}

LocalTasks::~LocalTasks() {
  for (const auto& [task, running] : running_) {
    kill_rest(running->child.id);
    forget(*running);
  }
  poller_.forget(places_.file());
}

std::string LocalTasks::file_of(const TaskStart& start, const char* kind) const {
  return task_file(directory_, kind, label_of(start.id));
}

Environment LocalTasks::with_crash_report(const TaskStart& start) const {
  Environment variables = start.environment;
  add_mark(variables, directory_, label_of(start.id));
  if (start.trace) variables["COHORT_TRACE_FILE"] = file_of(start, "trace");
  if (preload_.empty()) return variables;
  variables["COHORT_CRASH_FILE"] = file_of(start, "crash");
  variables["COHORT_ACTIVITY_FILE"] = file_of(start, "activity");
  variables["LD_PRELOAD"] = joined("LD_PRELOAD", preload_, ':');
  // AddressSanitizer demands to be the first library unless it gets this option.
  variables["ASAN_OPTIONS"] = joined("ASAN_OPTIONS", "verify_asan_link_order=0", ':');
  return variables;
}

void LocalTasks::start(const TaskStart& start) {
  unlink(file_of(start, "crash").c_str());
  unlink(file_of(start, "activity").c_str());
  Child child;
  const Status status = capture_status([&] {
    child = start_child({.command = start.command,
                         .environment = with_crash_report(start),
                         .directory = start.directory,
                         .input = start.input,
                         .reaper_end = reaper_.end(),
                         .memory_limit_bytes = start.memory_limit_bytes});
  });
  if (!status.ok()) return events_.ended(start.task, {.not_started = status.message});
  Running& running = *(running_[start.task] = std::unique_ptr<Running>(
                           new Running{.child = std::move(child),
                                       .start = start,
                                       .output = lines_of(start.task, Stream::Output),
                                       .errors = lines_of(start.task, Stream::Errors),
                                       .last_lines = {}}));
  std::ofstream(file_of(start, "process")) << running.child.id;
  for (const auto& [fd, lines] : running.files()) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    poller_.watch(fd, [this, fd = fd, lines = lines] { read_from(fd, *lines); });
  }
}

LineCutter LocalTasks::lines_of(size_t task, Stream stream) {
  return LineCutter([this, task, stream](std::string_view line) {
    std::vector<std::string>& last = running_.at(task)->last_lines;
    if (last.size() == kLastLines) last.erase(last.begin());
    last.emplace_back(line.substr(0, kLastLineBytes));
    events_.line(task, stream, line);
  });
}

// Reads one block: a task that writes without end must not hold up the others, nor signals.
void LocalTasks::read_from(int fd, LineCutter& lines) {
  char block[64 << 10];
  const ssize_t size = read(fd, block, sizeof block);
  if (size > 0) lines.add({block, static_cast<size_t>(size)});
  if (size == 0) poller_.forget(fd);  // closed, also by the processes that the task has started
}

// Reads only what is there now: another process may still have the file and go on writing.
void LocalTasks::read_rest(Running& running) {
  for (const auto& [fd, lines] : running.files()) {
    int left = 0;
    if (ioctl(fd, FIONREAD, &left) != 0) left = 0;
    std::string rest(static_cast<size_t>(left), '\0');
    const ssize_t size = read(fd, rest.data(), rest.size());
    if (size > 0) lines->add({rest.data(), static_cast<size_t>(size)});
    lines->finish();
  }
}

void LocalTasks::signal(size_t task, int signal) {
  const auto found = running_.find(task);
  if (found != running_.end()) kill(-found->second->child.id, signal);
}

Ending LocalTasks::ending_of(const Running& running, int status, uint64_t peak_bytes) {
  const std::chrono::duration<double> lasted = Clock::now() - running.began;
  Ending ending{.status = status,
                .seconds = lasted.count(),
                .peak_bytes = peak_bytes,
                .memory_limit_bytes = running.start.memory_limit_bytes,
                .deadlocked_seconds = running.deadlocked_seconds,
                .crash = read_crash_record(file_of(running.start, "crash")),
                .last_lines = running.last_lines};
  const uint64_t kills = memory_.kills();
  ending.killed_for_memory = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
                             kills > std::exchange(memory_kills_, kills);
  if (!ending.memory_limit_bytes) ending.memory_limit_bytes = memory_.limit_bytes();
  return ending;
}

void LocalTasks::forget(Running& running) {
  for (const auto& [fd, lines] : running.files()) poller_.forget(fd);
  unlink(file_of(running.start, "crash").c_str());
  unlink(file_of(running.start, "activity").c_str());
  unlink(file_of(running.start, "process").c_str());
  reaper_.ended(running.child.id);
}

void LocalTasks::reap() {
  for (auto at = running_.begin(); at != running_.end();) {
    const auto [task, running] = std::pair{at->first, at->second.get()};
    ++at;
    int status = 0;
    rusage used{};
    if (wait4(running->child.id, &status, WNOHANG, &used) != running->child.id) continue;
    kill_rest(running->child.id);
    kill_marked(directory_, label_of(running->start.id));
    read_rest(*running);
    const Ending ending = ending_of(*running, status, static_cast<uint64_t>(used.ru_maxrss) << 10);
    if (running->start.trace) report_timeline(running->start);
    forget(*running);
    running_.erase(task);
    events_.ended(task, ending);
  }
}

// Reports whole lines in parts, each small enough for a message.
void LocalTasks::report_timeline(const TaskStart& start) {
  constexpr size_t kPartBytes = 32 << 10;
  std::ifstream file(file_of(start, "trace"));
  std::string part;
  for (std::string line; std::getline(file, line);) {
    part += line + "\n";
    if (part.size() < kPartBytes) continue;
    events_.timeline(start.task, part);
    part.clear();
  }
  events_.timeline(start.task, part);
  unlink(file_of(start, "trace").c_str());
}

void LocalTasks::check_deadlock(Running& running) {
  const auto now = Clock::now();
  if (running.deadlocked_seconds > 0) {
    if (now > running.locked_since + kDeadlockLimit + kAbortLimit) {
      kill(-running.child.id, SIGKILL);
    }
    return;
  }
  if (!all_threads_wait_for_locks(running.child.id)) {
    running.locked_since = Clock::time_point::max();
    return;
  }
  running.locked_since = std::min(running.locked_since, now);
  if (now - running.locked_since < kDeadlockLimit) return;
  running.deadlocked_seconds = std::chrono::duration<double>(now - running.locked_since).count();
  kill(running.child.id, SIGABRT);  // its crash report says where it was
}

void LocalTasks::check_activity(size_t task, Running& running) {
  const auto activity = internal::read_activity(file_of(running.start, "activity"));
  if (!activity) return;
  const bool waits = !activity->waits.empty();
  if (std::exchange(running.waited, waits) || waits) events_.waits(task, activity->waits);
  if (activity->progress.value_or(running.progress) == running.progress) return;
  running.progress = *activity->progress;
  events_.progress(task, running.progress);
}

void LocalTasks::look() {
  for (const auto& [task, running] : running_) {
    check_deadlock(*running);
    check_activity(task, *running);
  }
}

void LocalTasks::ask_place(size_t task) {
  const auto found = running_.find(task);
  if (found == running_.end()) return;
  const TaskStart& start = found->second->start;
  // A task may be a script that started the program.
  internal::Activity activity{.process = found->second->child.id};
  if (auto read = internal::read_activity(file_of(start, "activity"))) activity = *std::move(read);
  askers_.emplace_back([this, task, activity, file = file_of(start, "crash")] {
    places_.post([this, task, place = find_place(activity, file)] { events_.place(task, place); });
  });
}

}  // namespace cohort::cli
