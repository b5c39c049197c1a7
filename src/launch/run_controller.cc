#include "launch/run_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace cohort::cli {
namespace {

// A task that dies because another did is often noticed at the same moment.
constexpr auto kSettling = std::chrono::milliseconds(300);
// A task that finishes within this time after a restart of the chief was told so by the dead chief.
constexpr auto kFarewell = std::chrono::seconds(2);

constexpr size_t kLines = 10;   // of output
constexpr size_t kFrames = 12;  // of the stack

bool is_chief(const TaskId& task) { return task.job == "chief"; }

std::string last_lines(const Ending& ending) {
  if (ending.last_lines.empty()) return "  it wrote nothing\n";
  const size_t count = std::min(kLines, ending.last_lines.size());
  std::string text = fmt::format("  its last {}:\n", count == 1 ? "line" : "lines");
  for (size_t i = ending.last_lines.size() - count; i < ending.last_lines.size(); ++i) {
    text += "    | " + shortened(printable(ending.last_lines[i]), kReportWidth) + "\n";
  }
  return text;
}

std::string fate_of(const RunController::Outcome& outcome) {
  if (!outcome.ending) return "still running";
  if (!outcome.ending->not_started.empty()) return "was not started either";
  if (!outcome.ending->lost_machine.empty()) return "lost with its machine";
  if (outcome.ending->good()) return outcome.asked_to_stop ? "stopped" : "finished";
  if (outcome.asked_to_stop) return "stopped";
  return shortened(explain(*outcome.ending), kReportWidth);
}

// Tasks with the same fate share a line.
std::string others(const RunController& run, size_t guilty) {
  std::map<std::string, std::vector<std::string>> by_fate;
  for (size_t i = 0; i < run.tasks().size(); ++i) {
    if (i != guilty)
      by_fate[fate_of(run.outcomes()[i])].push_back(label_of(run.tasks()[i].start.id));
  }
  std::string text;
  for (const auto& [fate, labels] : by_fate) {
    text += fmt::format("  {}: {}\n",
                        shortened(fmt::format("{}", fmt::join(labels, ", ")), kReportWidth), fate);
  }
  return text;
}

}  // namespace

RunController::RunController(std::vector<RunTask> tasks, Options options,
                             std::function<void(const std::string&)> say, Clock& clock)
    : tasks_(std::move(tasks)),
      options_(std::move(options)),
      say_(std::move(say)),
      clock_(clock),
      leads_(
          std::ranges::any_of(tasks_, is_chief, [](const RunTask& task) { return task.start.id; })
              ? is_chief
              : trains),
      outcomes_(tasks_.size()),
      asked_(tasks_.size()) {}

void RunController::start() {
  for (const RunTask& task : tasks_) task.host->start(task.start);
}

bool RunController::restart(size_t task, const Ending& ending) {
  const int limit = max_restarts(tasks_[task].start.id.job);
  int& restarts = outcomes_[task].restarts;
  if (stopping_ || restarts >= limit || !ending.has_status()) return false;
  ++restarts;
  say_(fmt::format("{} died: {}. Restart {} of {}", label_of(tasks_[task].start.id),
                   explain(ending), restarts, limit));
  tasks_[task].host->start(tasks_[task].start);
  if (!is_chief(tasks_[task].start.id)) return true;
  chief_restarted_until_ = clock_.now() + kFarewell;
  start_finished_tasks();
  return true;
}

void RunController::start_finished_tasks() {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (running(i) || !outcomes_[i].ending->good()) continue;
    say_(fmt::format("{} was done and is started again for the chief",
                     label_of(tasks_[i].start.id)));
    outcomes_[i].ending.reset();
    tasks_[i].host->start(tasks_[i].start);
  }
}

void RunController::ended(size_t task, const Ending& ending) {
  if (!ending.good() && restart(task, ending)) return;
  Outcome& outcome = outcomes_[task];
  outcome.ending = ending;
  outcome.asked_to_stop = stopping_;
  outcome.when = clock_.now();
  if (stopping_) return ask_next();
  if (!ending.good()) {
    failed_ = true;
    stop_at_ = std::min(stop_at_, clock_.now() + kSettling);
  } else if (clock_.now() < chief_restarted_until_ && !chief_is_done()) {
    start_finished_tasks();
  } else if (!any_runs(trains)) {
    stop_at_ = clock_.now();
  } else if (chief_is_done()) {
    stop_at_ = std::min(stop_at_, clock_.now() + options_.grace);
  }
}

bool RunController::any_runs(bool (*wanted)(const TaskId& task)) const {
  return std::ranges::any_of(tasks_, [&](const RunTask& task) {
    return wanted(task.start.id) && running(task.start.task);
  });
}

bool RunController::chief_is_done() const { return leads_ == &is_chief && !any_runs(is_chief); }

void RunController::signal_all(int signal) {
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (running(i)) tasks_[i].host->signal(i, signal);
  }
}

void RunController::ask_to_end() {
  stopping_ = true;
  stop_at_ = Clock::Time::max();
  kill_at_ = clock_.now() + options_.grace;
  ask_next();
}

void RunController::ask_next() {
  const bool leaders_run = any_runs(leads_);
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (!running(i) || asked_[i] || (leaders_run && !leads_(tasks_[i].start.id))) continue;
    asked_[i] = true;
    tasks_[i].host->signal(i, SIGTERM);
  }
}

void RunController::stop(int signal) {
  if (stop_signal_ == 0) stop_signal_ = signal;
  if (std::exchange(machine_stops_, false)) return;
  if (stopping_) return signal_all(SIGKILL);
  ask_to_end();
}

void RunController::stop_for(const std::string& machine, int signal) {
  if (stopping_) return;
  say_(fmt::format("the machine at {} was asked to end: stopping the tasks", machine));
  machine_stops_ = true;
  stop_signal_ = signal;
  ask_to_end();
}

void RunController::tick() {
  const auto now = clock_.now();
  if (!stopping_ && now >= stop_at_) ask_to_end();
  if (stopping_ && now >= kill_at_) {
    kill_at_ = Clock::Time::max();
    say_killed();
    signal_all(SIGKILL);
  }
}

// Tasks that were not asked are left out: they are killed because others kept them waiting.
void RunController::say_killed() const {
  std::vector<std::string> labels;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (running(i) && asked_[i]) labels.push_back(label_of(tasks_[i].start.id));
  }
  if (labels.empty()) return;
  say_(fmt::format("{} did not end within {:g} s and {} killed; see --grace",
                   shortened(fmt::format("{}", fmt::join(labels, ", ")), kReportWidth),
                   std::chrono::duration<double>(options_.grace).count(),
                   labels.size() == 1 ? "was" : "were"));
}

bool RunController::over() const {
  return !any_runs([](const TaskId&) { return true; });
}

std::optional<size_t> RunController::guilty() const {
  if (!failed_) return std::nullopt;
  const auto weight = [](const Outcome& outcome) {
    return outcome.ending && !outcome.asked_to_stop ? weight_as_cause(*outcome.ending) : 0;
  };
  // Of tasks with the same weight, the first that died.
  const auto found = std::ranges::max_element(outcomes_, {}, [&](const Outcome& outcome) {
    return std::pair(weight(outcome), -outcome.when.time_since_epoch());
  });
  if (weight(*found) == 0) return std::nullopt;
  return static_cast<size_t>(found - outcomes_.begin());
}

int RunController::exit_code() const {
  if (const auto task = guilty()) return exit_code_of(*outcomes_[*task].ending);
  return stop_signal_ == 0 ? 0 : 128 + stop_signal_;
}

namespace {

// Tells a user who has not asked for restarts of them.
std::string restart_hint(const RunController& run, size_t task) {
  const std::string& job = run.tasks()[task].start.id.job;
  const Ending& ending = *run.outcomes()[task].ending;
  if (!ending.has_status() || would_end_again(ending) || run.max_restarts(job) > 0) return "";
  return fmt::format("  --max-restarts {}=1 would have started it again\n", job);
}

// The innermost frames. A main without a line is of a program without debug information.
std::string stack_of(const std::vector<std::string>& frames) {
  if (frames.empty()) return "";
  const bool without_lines = std::ranges::find(frames, "main") != frames.end();
  return "  where it was:\n" + frame_lines(frames, kFrames) +
         (without_lines ? "    compile with -g for lines\n" : "");
}

}  // namespace

std::string failure_report(const RunController& run, size_t guilty,
                           const std::vector<std::string>& log_files) {
  const Ending& ending = *run.outcomes()[guilty].ending;
  const int restarts = run.outcomes()[guilty].restarts;
  const bool lost = !ending.lost_machine.empty();
  const std::string fate =
      ending.not_started.empty()
          ? fmt::format("{} after {:.1f} s", lost ? "was lost" : "died", ending.seconds)
          : "was not started";
  std::string text = fmt::format("cohort: {} {}: {}\n", label_of(run.tasks()[guilty].start.id),
                                 fate, explain(ending));
  if (restarts > 0) text += fmt::format("  it had been restarted {} times\n", restarts);
  if (ending.not_started.empty()) text += last_lines(ending) + stack_of(ending.crash.frames);
  text += restart_hint(run, guilty) + others(run, guilty);
  text += fmt::format("  all it wrote: {}\n", log_files.at(guilty));
  return text;
}

}  // namespace cohort::cli
