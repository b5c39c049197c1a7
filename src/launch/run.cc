#include "launch/run.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/raise.h"

namespace cohort::cli {
namespace {

constexpr auto kTick = std::chrono::milliseconds(1000);
constexpr auto kLiveTick = std::chrono::milliseconds(200);  // for a live row of progress
constexpr auto kBusyTick = std::chrono::milliseconds(50);   // while something is due soon

std::vector<std::string> labels_of(const RunLayout& layout) {
  std::vector<std::string> labels;
  for (const RunLayout::Place& place : layout.places) labels.push_back(label_of(place.task));
  return labels;
}

std::string current_directory() {
  std::error_code problem;
  const std::filesystem::path directory = std::filesystem::current_path(problem);
  if (!problem) return directory.string();
  internal::raise(Code::InvalidArgument,
                  "[Run] the current directory does not exist: {}; cd to another one",
                  problem.message());
}

}  // namespace

void say(const std::string& text) { write_out(Stream::Errors, fmt::format("cohort: {}\n", text)); }

RunCore::RunCore(const RunOptions& options, Poller& poller, const std::string& run_directory)
    : options_(options),
      poller_(poller),
      run_directory_(run_directory),
      log_directory_(options.log_directory.empty() ? run_directory + "/logs"
                                                   : options.log_directory) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of the output may be gone; the log files have it
  std::error_code problem;
  std::filesystem::create_directories(log_directory_, problem);
  if (problem) {
    internal::raise(Code::InvalidArgument, "[Run] --log-dir: '{}' cannot be made: {}",
                    log_directory_, problem.message());
  }
}

TaskEvents RunCore::events() {
  return {.line = [this](size_t task, Stream stream,
                         std::string_view line) { print(task, stream, line); },
          .ended = [this](size_t task, const Ending& ending) { task_ended(task, ending); },
          .waits = [this](size_t task, const LongWaits& waits) { stalls_->set_waits(task, waits); },
          .place =
              [this](size_t task, const TaskPlace& place) {
                stalls_->place_found(task, place);
                stalls_->look();
              },
          .progress = [this](size_t task,
                             const internal::ProgressNote& note) { progress_->set(task, note); },
          .timeline =
              [this](size_t task, std::string_view lines) {
                trace_->add(task, lines, controller_->tasks()[task].host->clock_ahead());
              },
          .interrupted = [this](const std::string& machine,
                                int signal) { controller_->stop_for(machine, signal); }};
}

void RunCore::print(size_t task, Stream stream, std::string_view line) {
  const std::string problem = logs_.at(task)->add(line);
  if (!problem.empty() && !std::exchange(lines_lost_, true)) {
    say(fmt::format("the log '{}' is not complete: {}; see --log-dir", logs_[task]->path(),
                    problem));
  }
  printer_->line(task, stream, line);
}

void RunCore::task_ended(size_t task, const Ending& ending) {
  stalls_->ended(task);
  progress_->set(task, {});
  controller_->ended(task, ending);
  for (size_t i = 0; i < controller_->outcomes().size(); ++i) {
    if (!controller_->outcomes()[i].ending) stalls_->runs(i);
  }
}

std::unique_ptr<StallWatch> RunCore::watch_stalls(const Work& work) {
  std::vector<NamedTask> tasks;
  for (const RunLayout::Place& place : work.layout.places) {
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

std::vector<RunTask> RunCore::run_tasks(const Work& work) {
  std::vector<RunTask> all;
  for (size_t i = 0; i < work.layout.places.size(); ++i) {
    const TaskId& task = work.layout.places[i].task;
    logs_.push_back(std::make_unique<TaskLog>(
        fmt::format("{}/{}-{}.log", log_directory_, task.job, task.index)));
    Environment environment = environment_of(work.layout, i);
    environment.merge(work.environment(task));
    if (!options_.strategy.empty()) environment[internal::kStrategyVariable] = options_.strategy;
    if (options_.simulated_gpus > 0) {
      environment["COHORT_SIMULATED_GPUS"] = std::to_string(options_.simulated_gpus);
    }
    if (options_.stall_seconds > 0) {
      environment["COHORT_STALL_SECONDS"] = std::to_string(options_.stall_seconds);
    }
    all.push_back({.start = {.task = i,
                             .id = task,
                             .command = options_.command,
                             .environment = environment,
                             .directory = current_directory(),
                             .memory_limit_bytes = options_.memory_limit_bytes,
                             .trace = trace_ != nullptr},
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
      say("stopping the tasks; a second signal kills them");
      controller_->stop(signal);
    }
  }
}

void RunCore::loop(const Work& work, Signals& signals) {
  using std::chrono::milliseconds;
  poller_.watch(signals.file(), [&] { on_signal(work, signals); });
  const milliseconds pause = progress_->is_live() ? kLiveTick : kTick;
  auto next_look = std::chrono::steady_clock::now();
  auto next_stall_look = next_look;
  while (!controller_->over()) {
    // Rounded up, so that the loop does not spin through the last millisecond.
    const auto left = std::chrono::ceil<milliseconds>(next_look - std::chrono::steady_clock::now());
    poller_.wait(
        std::clamp(left, milliseconds(0), controller_->something_is_due() ? kBusyTick : pause));
    controller_->tick();
    const auto now = std::chrono::steady_clock::now();
    if (now < next_look) continue;
    next_look = now + pause;
    work.look();
    // Not more often: between two looks all tasks that wait for one task should become known.
    if (controller_->something_is_due() || now < next_stall_look) continue;
    next_stall_look = now + kTick;
    stalls_->look();
  }
  poller_.forget(signals.file());
}

int RunCore::run(const Work& work, Signals& signals) {
  printer_ = std::make_unique<Printer>(labels_of(work.layout));
  if (!options_.trace.empty()) {
    trace_ = std::make_unique<TraceFile>(options_.trace, labels_of(work.layout));
  }
  controller_ = std::make_unique<RunController>(
      run_tasks(work),
      RunController::Options{.max_restarts = options_.max_restarts, .grace = options_.grace}, &say);
  stalls_ = watch_stalls(work);
  progress_ = std::make_unique<ProgressView>(
      run_directory_, labels_of(work.layout),
      [this](size_t task, const std::string& text) { print(task, Stream::Output, text); });
  controller_->start();
  loop(work, signals);
  report();
  const bool traced = write_trace();
  const int code = controller_->exit_code();
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
  const auto guilty = controller_->guilty();
  if (!guilty) return;
  std::vector<std::string> files;
  for (const auto& log : logs_) files.push_back(log->path());
  write_out(Stream::Errors, "\n" + failure_report(*controller_, *guilty, files));
}

}  // namespace cohort::cli
