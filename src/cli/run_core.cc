#include "cli/run_core.h"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <utility>

#include "base/raise.h"
#include "cli/report.h"
#include "topology/strategy_choice.h"

namespace cohort::cli {
namespace {

constexpr auto kTick = std::chrono::milliseconds(1000);
constexpr auto kBusyTick = std::chrono::milliseconds(50);  // while something is due soon

std::vector<std::string> labels_of(const RunPlan& plan) {
  std::vector<std::string> labels;
  for (const RunPlan::Place& place : plan.places) labels.push_back(label_of(place.task));
  return labels;
}

std::string own_folder() {
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::current_path(problem);
  if (!problem) return folder.string();
  internal::raise(Code::InvalidArgument,
                  "[Run] the folder in which this is run is not there: {}; cd to another one",
                  problem.message());
}

}  // namespace

void say(const std::string& text) { write_out(Stream::Errors, fmt::format("cohort: {}\n", text)); }

RunCore::RunCore(const RunOptions& options, Poller& poller, const std::string& run_folder)
    : options_(options),
      poller_(poller),
      run_folder_(run_folder),
      log_folder_(options.log_folder.empty() ? run_folder + "/logs" : options.log_folder) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the output any more: the files have it
  std::error_code problem;
  std::filesystem::create_directories(log_folder_, problem);
  if (problem) {
    internal::raise(Code::InvalidArgument, "[Run] --log-dir: '{}' cannot be made: {}", log_folder_,
                    problem.message());
  }
}

TaskEvents RunCore::events() {
  return {.line = [this](size_t task, Stream stream,
                         std::string_view line) { print(task, stream, line); },
          .ended = [this](size_t task, const Ending& ending) { task_ended(task, ending); },
          .waits = [this](size_t task, const LongWaits& waits) { stalls_->heard(task, waits); },
          .place = [this](size_t task, const TaskPlace& place) { place_found(task, place); },
          .progress = [this](size_t task,
                             const internal::ProgressNote& note) { progress_->heard(task, note); },
          .timeline =
              [this](size_t task, std::string_view lines) {
                trace_->add(task, lines, supervisor_->tasks()[task].host->clock_ahead());
              }};
}

void RunCore::print(size_t task, Stream stream, std::string_view line) {
  keep(task, line);
  printer_->line(task, stream, line);
}

void RunCore::keep(size_t task, std::string_view line) {
  const std::string problem = logs_.at(task)->add(line);
  if (problem.empty() || std::exchange(lines_lost_, true)) return;
  say(fmt::format("what the tasks write is not kept whole: '{}': {}; see --log-dir",
                  logs_[task]->path(), problem));
}

void RunCore::task_ended(size_t task, const Ending& ending) {
  stalls_->ended(task);
  progress_->heard(task, {});
  supervisor_->ended(task, ending);
  for (size_t i = 0; i < supervisor_->outcomes().size(); ++i) {
    if (!supervisor_->outcomes()[i].ending) stalls_->runs(i);
  }
}

void RunCore::place_found(size_t task, const TaskPlace& place) {
  stalls_->place_found(task, place);
  stalls_->look();
}

std::unique_ptr<StallWatch> RunCore::watch_stalls(const Work& work) {
  std::vector<NamedTask> tasks;
  for (const RunPlan::Place& place : work.plan.places) {
    tasks.push_back({.label = label_of(place.task),
                     .full_name = full_name_of(place.task),
                     .address = fmt::format("{}:{}", place.host, place.port)});
  }
  return std::make_unique<StallWatch>(
      std::move(tasks),
      StallWatch::Events{
          .ask_place = [machines = work.machines](size_t task) { machines[task]->ask_place(task); },
          .say = &say});
}

std::vector<SupervisedTask> RunCore::supervised_tasks(const Work& work) {
  std::vector<SupervisedTask> all;
  for (size_t i = 0; i < work.plan.places.size(); ++i) {
    const TaskId& task = work.plan.places[i].task;
    logs_.push_back(
        std::make_unique<TaskLog>(fmt::format("{}/{}-{}.log", log_folder_, task.job, task.index)));
    Environment environment = environment_of(work.plan, i);
    environment.merge(work.environment(task));
    if (!options_.strategy.empty()) environment[internal::kStrategyVariable] = options_.strategy;
    if (options_.stall_seconds > 0) {
      environment["COHORT_STALL_SECONDS"] = std::to_string(options_.stall_seconds);
    }
    all.push_back({.start = {.task = i,
                             .label = label_of(task),
                             .command = options_.command,
                             .environment = environment,
                             .folder = own_folder(),
                             .memory_limit_bytes = options_.memory_limit_bytes,
                             .trace = trace_ != nullptr},
                   .id = task,
                   .host = work.machines.at(i)});
  }
  return all;
}

void RunCore::on_signal(const Work& work, Signals& signals) {
  while (const int signal = signals.next()) {
    if (signal == SIGCHLD) {
      work.child_ended();
    } else {
      hurry_readers();
      say("stopping the tasks; once more to kill them");
      supervisor_->stop(signal);
    }
  }
}

void RunCore::loop(const Work& work, Signals& signals) {
  poller_.watch(signals.file(), [&] { on_signal(work, signals); });
  auto next_look = Supervisor::Clock::now();
  while (!supervisor_->over()) {
    poller_.wait(supervisor_->something_is_due() ? kBusyTick : kTick);
    supervisor_->tick();
    if (Supervisor::Clock::now() < next_look) continue;
    next_look = Supervisor::Clock::now() + kTick;
    work.each_second();
    if (!supervisor_->something_is_due()) stalls_->look();
  }
  poller_.forget(signals.file());
}

int RunCore::run(const Work& work, Signals& signals) {
  printer_ = std::make_unique<Printer>(labels_of(work.plan));
  if (!options_.trace.empty()) {
    trace_ = std::make_unique<TraceFile>(options_.trace, labels_of(work.plan));
  }
  supervisor_ = std::make_unique<Supervisor>(
      supervised_tasks(work),
      SupervisorOptions{.max_restarts = options_.max_restarts, .grace = options_.grace}, &say);
  stalls_ = watch_stalls(work);
  progress_ = std::make_unique<ProgressView>(
      run_folder_, labels_of(work.plan),
      [this](size_t task, const std::string& text) { print(task, Stream::Output, text); });
  supervisor_->start();
  loop(work, signals);
  report();
  const bool traced = write_trace();
  const int code = supervisor_->exit_code();
  return code == 0 && !traced ? 1 : code;
}

bool RunCore::write_trace() const {
  if (!trace_) return true;
  const Status status = capture_status([&] { trace_->write(); });
  say(status.ok() ? fmt::format("the timelines are in {}; ui.perfetto.dev opens it", trace_->path())
                  : status.message);
  return status.ok();
}

void RunCore::report() const {
  const auto guilty = supervisor_->guilty();
  if (!guilty) return;
  std::vector<std::string> files;
  for (const auto& log : logs_) files.push_back(log->path());
  write_out(Stream::Errors, "\n" + failure_report(*supervisor_, *guilty, files));
}

}  // namespace cohort::cli
