#include "cli/run.h"

#include <csignal>

#include "cli/held_port.h"
#include "cli/known_tasks.h"
#include "cli/local_tasks.h"
#include "cli/run_core.h"
#include "cli/run_folder.h"
#include "cli/run_secrets.h"

namespace cohort::cli {
namespace {

constexpr char kHere[] = "127.0.0.1";

RunPlan plan_here(const Roles& roles, std::vector<HeldPort>& ports) {
  RunPlan plan{.master_host = kHere};
  for (const TaskId& task : tasks_of(roles)) {
    plan.places.push_back({task, kHere, ports.emplace_back(kHere).number()});
  }
  plan.master_port = ports.emplace_back(kHere).number();
  return plan;
}

}  // namespace

int run_here(const RunOptions& options) {
  const std::string folder = make_run_folder();
  const std::string secrets_folder = folder + "/secrets";
  Signals signals{SIGCHLD, SIGINT, SIGTERM, SIGHUP};
  const Reaper reaper(folder, secrets_folder);
  std::vector<HeldPort> ports;
  const RunPlan plan = plan_here(options.roles, ports);
  const internal::RunAuthority authority;
  const RunSecrets secrets(authority, secrets_folder);
  write_run_file(folder, plan, options.insecure ? "insecure" : secrets.for_client());

  Poller poller;
  RunCore core(options, poller, folder);
  LocalTasks tasks(poller, reaper,
                   {.folder = folder, .preload = companion_file("libcohort_crash_report.so")},
                   core.events());
  return core.run(
      {.plan = plan,
       .machines = std::vector<TaskHost*>(plan.places.size(), &tasks),
       .environment = [&](const TaskId& task) -> Environment {
         return {{"COHORT_CREDENTIALS", options.insecure ? "insecure" : secrets.for_task(task)}};
       },
       .each_second = [&] { tasks.look(); },
       .child_ended = [&] { tasks.reap(); }},
      signals);
}

}  // namespace cohort::cli
