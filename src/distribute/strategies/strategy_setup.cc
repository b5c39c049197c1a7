#include "distribute/strategies/strategy_setup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "base/raise.h"
#include "cohort/error.h"
#include "tensor/devices.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

std::vector<std::string> all_devices() {
  std::vector<std::string> gpus;
  for (const std::string& device : list_devices()) {
    if (DeviceName::parse(device).type == "GPU") gpus.push_back(device);
  }
  return gpus.empty() ? std::vector<std::string>{"CPU:0"} : gpus;
}

void check_jobs(std::string_view strategy, const std::vector<DeviceName>& asked) {
  const auto local = static_cast<size_t>(std::count_if(asked.begin(), asked.end(), is_local));
  if (local == asked.size()) return;
  if (local > 0) {
    raise(Code::InvalidArgument,
          "[{}] mixes devices of this process with devices of other jobs; give devices of one task",
          strategy);
  }
  for (const DeviceName& name : asked) {
    if (name.task) continue;
    raise(Code::InvalidArgument, "[{}] device '{}' names a job but no task", strategy,
          name.to_string());
  }
}

void check_one_task(std::string_view strategy, const std::vector<std::string>& devices) {
  const std::string first = DeviceName::parse(devices.front()).split().first;
  for (const std::string& device : devices) {
    if (DeviceName::parse(device).split().first == first) continue;
    raise(Code::FailedPrecondition,
          "[{}] devices '{}' and '{}' belong to different tasks; a strategy over several tasks is "
          "a MultiWorkerMirroredStrategy or a ParameterServerStrategy",
          strategy, devices.front(), device);
  }
}

void check_different(std::string_view strategy, const std::vector<std::string>& devices) {
  std::vector<std::string> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice == sorted.end()) return;
  raise(Code::InvalidArgument, "[{}] device '{}' is given twice: {}", strategy, *twice,
        fmt::join(devices, ", "));
}

// CPU devices come into being when they are named.
void make_cpus(std::string_view strategy, const std::vector<std::string>& devices) {
  constexpr int kMaxCpus = 1024;
  int count = 0;
  for (const std::string& device : devices) {
    const DeviceName name = DeviceName::parse(device);
    if (name.type == "CPU" && is_local(name)) count = std::max(count, *name.index + 1);
  }
  if (count > kMaxCpus) {
    raise(Code::InvalidArgument, "[{}] CPU:{} does not exist: a process has at most {} CPU devices",
          strategy, count - 1, kMaxCpus);
  }
  ensure_cpu_devices(count);
}

std::atomic<bool> nothing_to_warn_of = false;

}  // namespace

std::vector<std::string> resolve_devices(std::string_view strategy,
                                         const std::vector<std::string>& names) {
  const std::vector<std::string> written = names.empty() ? all_devices() : names;
  std::vector<DeviceName> asked;
  std::vector<std::string> devices;
  for (const std::string& name : written) {
    asked.push_back(DeviceName::parse_any_form(name));
    devices.push_back(canonical_device(name, requested_device("", "").to_string()));
  }
  check_jobs(strategy, asked);
  check_one_task(strategy, devices);
  check_different(strategy, devices);
  make_cpus(strategy, devices);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!has_device(devices[i])) raise_no_device(strategy, written[i], devices[i]);
  }
  return devices;
}

void note_joint_training() { nothing_to_warn_of = true; }

void warn_if_one_of_several(std::string_view strategy, std::string_view remedy) {
  if (nothing_to_warn_of) return;
  std::optional<LaunchOfSeveral> launch;
  const Status problem = capture_status([&] { launch = launch_of_several(); });
  if (problem.ok() && !launch) return;
  if (nothing_to_warn_of.exchange(true)) return;
  if (launch) {
    log_warning(
        "[{}] trains in this process alone, but {} names {} processes, each of which trains its "
        "own model; {} to train one model together",
        strategy, launch->launcher, launch->processes, remedy);
  } else {
    log_warning(
        "[{}] trains in this process alone, but the environment may mean several: {}; {} to train "
        "one model together",
        strategy, problem.message, remedy);
  }
}

}  // namespace cohort::internal
