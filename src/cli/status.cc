#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/waiting.h"
#include "cli/command.h"

namespace cohort::cli {
namespace {

constexpr auto kAnswerLimit = std::chrono::seconds(3);

// Counters of a task.
struct Counts {
  uint64_t steps = 0, sent = 0, received = 0;
};
Counts counts_of(const AskedTask& task) {
  const ServerStatus& server = task.server;
  Counts counts;
  // The steps of open sessions would be fewer after each session that ends. A coordinator replaces
  // the session on a worker when functions are gone.
  counts.steps = task.status.activity.steps;
  for (const auto& peer : server.peers) {
    counts.sent += peer.bytes_sent;
    counts.received += peer.bytes_received;
  }
  return counts;
}

// 0 if the task was started again in between.
double rate(uint64_t before, uint64_t now, double seconds) {
  return now < before ? 0 : static_cast<double>(now - before) / seconds;
}

// "37 %": the share of the time.
std::string share(double before, double now, double seconds) {
  return fmt::format("{:.0f} %", std::clamp((now - before) / seconds, 0.0, 1.0) * 100);
}

// One line for each wait, below the line of the task.
std::string waits_of(const AskedTask& task) {
  std::string text;
  for (const internal::ActivityWait& wait : task.status.activity.waits) {
    text += fmt::format("  waits for {}, for {:.1f} s: {}\n", fmt::join(wait.whom, ", "),
                        wait.seconds, wait.what);
  }
  return text;
}

std::string name_of(const AskedTask& task) {
  return task.label.empty() ? task.address : task.label;
}

// What a task is that does not listen and need not; "" for a task that listens or should.
std::string reason_not_to_listen(const AskedTask& task, size_t num_tasks) {
  if (task.problem.code != Code::Unavailable) return "";
  if (task.label == "chief:0") return "a chief that only coordinates";
  if (!task.progress.empty()) return "a task that trains alone";
  // The task of an address that the user gave has no label.
  return num_tasks == 1 && !task.label.empty() ? "the only task of a run" : "";
}

std::string line_of(const AskedTask& before, const AskedTask& now, size_t num_tasks,
                    double seconds) {
  const std::string reason = reason_not_to_listen(now, num_tasks);
  const std::string process = now.process == 0 ? "" : fmt::format(" (pid {})", now.process);
  if (!reason.empty()) {
    return fmt::format("{:<14} does not listen; {} need not{}\n", name_of(now), reason, process);
  }
  if (!now.problem.ok()) {
    return fmt::format("{:<14} {}{}\n", name_of(now), now.problem.message, process);
  }
  const Counts a = counts_of(before), b = counts_of(now);
  const internal::Activity &then = before.status.activity, &activity = now.status.activity;
  return fmt::format(
      "{:<14} {:<22} {:>8} {:>7.0f} s {:>8} {:>8} {:>10.1f} {:>8} {:>10.2f} {:>10.2f} {:>7} "
      "{:>7}\n{}",
      name_of(now), now.status.peer.address, now.process, now.status.seconds_up,
      now.server.sessions.size(), b.steps, rate(a.steps, b.steps, seconds),
      now.server.running_steps, rate(a.sent, b.sent, seconds) * 1e-6,
      rate(a.received, b.received, seconds) * 1e-6,
      share(then.input_seconds, activity.input_seconds, seconds),
      share(then.wait_seconds, activity.wait_seconds, seconds), waits_of(now));
}

void ask_all(std::vector<KnownTasks>& runs) {
  for (KnownTasks& run : runs) {
    ask_tasks(run.tasks, run.credentials, kAnswerLimit);
    find_silent_processes(run.tasks, run.directory);
    const std::map<std::string, std::string> progress = read_progress_file(run.directory);
    for (AskedTask& task : run.tasks) {
      const auto found = progress.find(task.label);
      task.progress = found == progress.end() ? "" : found->second;
    }
  }
}

bool every_task_answered(const KnownTasks& run) {
  return std::ranges::all_of(run.tasks, [&](const AskedTask& task) {
    return task.problem.ok() || !reason_not_to_listen(task, run.tasks.size()).empty();
  });
}

struct StatusOptions {
  std::vector<std::string> addresses = {};
  std::string credentials = {};
  bool watch = false;  // repeats until it is interrupted
  std::chrono::milliseconds interval{1'000};
};
// Returns the exit code: 0 if all tasks answered.
int show_status(const StatusOptions& options) {
  std::vector<KnownTasks> runs = find_tasks(options.addresses, options.credentials);
  ask_all(runs);
  const bool rewrites = options.watch && isatty(STDOUT_FILENO) == 1;
  do {
    const std::vector<KnownTasks> before = runs;
    const auto asked = std::chrono::steady_clock::now();
    internal::pause_for(options.interval);
    ask_all(runs);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - asked;
    if (rewrites) fmt::print("\033[H\033[J");
    for (size_t i = 0; i < runs.size(); ++i) {
      fmt::print("tasks of {}\n{}", runs[i].where,
                 status_table(before[i].tasks, runs[i].tasks, passed.count()));
    }
    std::fflush(stdout);
  } while (options.watch);
  return std::ranges::all_of(runs, every_task_answered) ? 0 : 1;
}

constexpr char kStatusExample[] =
    "Examples:\n"
    "  cohort status                        # of all runs that go on here\n"
    "  cohort status --watch                # again every second\n"
    "  cohort status --credentials certificates h0:2222 h1:2222";

}  // namespace

std::string status_table(const std::vector<AskedTask>& before, const std::vector<AskedTask>& now,
                         double seconds) {
  std::string table =
      fmt::format("{:<14} {:<22} {:>8} {:>9} {:>8} {:>8} {:>10} {:>8} {:>10} {:>10} {:>7} {:>7}\n",
                  "task", "address", "pid", "up", "sessions", "steps", "steps/s", "running",
                  "sent MB/s", "got MB/s", "input", "wait");
  for (size_t i = 0; i < now.size(); ++i) {
    table += line_of(before.at(i), now[i], now.size(), seconds);
    if (!now[i].progress.empty()) table += fmt::format("  {}\n", now[i].progress);
  }
  return table;
}

void add_status(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("status", "Show what the tasks of a run do");
  command->footer(kStatusExample);
  const auto typed = std::make_shared<StatusOptions>();
  command->add_option("addresses", typed->addresses, "host:port of each task to ask");
  command->add_option("--credentials", typed->credentials, kCredentialsHelp);
  command->add_flag("--watch", typed->watch, "Ask again every second");
  command->callback([typed, &exit_code] { exit_code = show_status(*typed); });
}

}  // namespace cohort::cli
