#include "cli/ask_tasks.h"

#include <thread>

#include "cluster/server_status.h"

namespace cohort::cli {
namespace {

double seconds_since_1970() {
  const std::chrono::duration<double> passed = std::chrono::system_clock::now().time_since_epoch();
  return passed.count();
}

void ask(AskedTask& task, const Credentials& credentials, std::chrono::milliseconds limit) {
  task.problem = capture_status([&] {
    const double before = seconds_since_1970();
    task.status =
        internal::ask_status(task.address, credentials, std::chrono::steady_clock::now() + limit);
    // It looked at its clock somewhere between the two.
    task.clock_difference = task.status.clock - (before + seconds_since_1970()) / 2;
  });
  // What is no server has other details, or none.
  [[maybe_unused]] const Status other =
      capture_status([&] { task.server = internal::decode_server_status(task.status.details); });
}

}  // namespace

void ask_tasks(std::vector<AskedTask>& tasks, const Credentials& credentials,
               std::chrono::milliseconds limit) {
  std::vector<std::jthread> askers;
  for (AskedTask& task : tasks) {
    askers.emplace_back([&task, &credentials, limit] { ask(task, credentials, limit); });
  }
}

}  // namespace cohort::cli
