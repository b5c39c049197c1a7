// All tasks on this machine.

#include "launch/local_network.h"
#include "launch/local_tasks.h"
#include "launch/run.h"

namespace cohort::cli {
namespace {

constexpr char kHere[] = "127.0.0.1";

RunLayout local_layout(const Roles& roles, std::vector<HeldPort>& ports) {
  RunLayout layout{.master_host = kHere};
  for (const TaskId& task : tasks_of(roles)) {
    layout.places.push_back({task, kHere, ports.emplace_back(kHere).number()});
  }
  layout.master_port = ports.emplace_back(kHere).number();
  return layout;
}

}  // namespace

int run_here(const RunOptions& options) {
  RunResources run;
  std::vector<HeldPort> ports;
  const RunLayout layout = local_layout(options.roles, ports);
  write_run_file(run.directory, cluster_of(layout),
                 options.insecure ? "insecure" : run.secrets.for_client());
  RunCore core(options, run.poller, run.directory);
  LocalTasks tasks(run.poller, run.reaper, run.directory, CrashReports::Written, core.events());
  return core.run({.layout = layout,
                   .machines = std::vector<TaskHost*>(layout.places.size(), &tasks),
                   .environment = [&](const TaskId& task) -> Environment {
                     return {{"COHORT_CREDENTIALS",
                              options.insecure ? "insecure" : run.secrets.for_task(task)}};
                   },
                   .look = [&] { tasks.look(); },
                   .child_ended = [&] { tasks.reap(); }},
                  run.signals);
}

}  // namespace cohort::cli
