#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/waiting.h"
#include "cli/doctor.h"
#include "cli/known_tasks.h"
#include "rpc/certificates.h"
#include "rpc/endpoint.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(100);
constexpr auto kTryLimit = std::chrono::seconds(2);
constexpr double kClockTolerance = 1.0;  // seconds

// This task as others find it, for as long as it is examined. Counts who asked.
class Answering {
 public:
  Answering(const DoctorCluster& cluster, const Credentials& credentials) {
    const TaskId& self = *cluster.self;
    party_ = internal::make_endpoint(
        {.self = {.name = full_name_of(self),
                  .incarnation = 1,
                  .address = cluster.cluster.task_address(self.job, self.index)},
         .credentials = credentials,
         .spans_hosts = internal::spans_hosts(cluster.cluster),
         .details =
             [this] {
               ++asked_;
               return std::string();
             }},
        [](const std::shared_ptr<internal::Connection>&) {});
  }
  ~Answering() { party_->stop(); }
  int asked() const { return asked_; }

 private:
  std::atomic<int> asked_ = 0;
  std::unique_ptr<internal::Party> party_;
};

void tell_about(const AskedTask& task, const Tell& tell) {
  const std::string name = fmt::format("{} at {}", task.label, task.address);
  if (!task.problem.ok()) {
    return tell(Finding::Bad, "connection", fmt::format("{}: {}", name, task.problem.message));
  }
  tell(Finding::Good, "connection", fmt::format("{} answers", name));
  if (task.status.version != COHORT_VERSION) {
    tell(Finding::Bad, "version",
         fmt::format("{} has version {}, this is {}", name, task.status.version, COHORT_VERSION));
  }
  if (std::abs(task.clock_difference) > kClockTolerance) {
    tell(Finding::Remark, "clock",
         fmt::format("that of {} is {:+.1f} s off this one: certificates and timelines suffer",
                     name, task.clock_difference));
  }
}

std::vector<AskedTask> others(const DoctorCluster& cluster) {
  std::vector<AskedTask> tasks = tasks_of(cluster.cluster);
  std::erase_if(tasks, [&](const AskedTask& task) {
    return cluster.self && task.label == label_of(*cluster.self);
  });
  return tasks;
}

bool all_answered(const std::vector<AskedTask>& tasks) {
  return std::all_of(tasks.begin(), tasks.end(),
                     [](const AskedTask& task) { return task.problem.ok(); });
}

// Asks those who have not answered, all at the same time.
void ask_silent(std::vector<AskedTask>& tasks, const Credentials& credentials) {
  std::vector<AskedTask> silent;
  std::copy_if(tasks.begin(), tasks.end(), std::back_inserter(silent),
               [](const AskedTask& task) { return !task.problem.ok(); });
  ask_tasks(silent, credentials, kTryLimit);
  for (AskedTask& task : tasks) {
    const auto asked = std::find_if(silent.begin(), silent.end(), [&](const AskedTask& other) {
      return other.label == task.label;
    });
    if (asked != silent.end()) task = *asked;
  }
}

// Again and again, until all have answered.
void dial(std::vector<AskedTask>& tasks, const Credentials& credentials, internal::Deadline until) {
  ask_tasks(tasks, credentials, kTryLimit);
  while (!all_answered(tasks) && std::chrono::steady_clock::now() < until) {
    internal::sleep_for(kBetweenTries);
    ask_silent(tasks, credentials);
  }
}

}  // namespace

void examine_credentials(const DoctorCluster& cluster, const Credentials& credentials,
                         const Tell& tell) {
  const Status problem = capture_status([&] {
    internal::check_credentials(credentials, cluster.self ? full_name_of(*cluster.self) : "client");
  });
  if (!problem.ok()) return tell(Finding::Bad, "certificates", problem.message);
  if (credentials.has_certificates()) return tell(Finding::Good, "certificates", "they fit");
  const bool exposed = internal::spans_hosts(cluster.cluster);
  if (exposed && !credentials.insecure) {
    return tell(Finding::Bad, "certificates",
                "there are none, and servers that other machines reach need them: see "
                "COHORT_CREDENTIALS, or start the tasks with cohort run");
  }
  tell(Finding::Remark, "certificates", "there are none: whoever reaches the tasks may use them");
}

void examine_connections(const DoctorCluster& cluster, const Credentials& credentials,
                         std::chrono::milliseconds limit, const Tell& tell) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::vector<AskedTask> tasks = others(cluster);
  std::optional<Answering> answering;
  if (cluster.self) {
    const Status listens = capture_status([&] { answering.emplace(cluster, credentials); });
    if (!listens.ok()) {
      tell(Finding::Remark, "port", listens.message + ". If that is this task itself, all is well");
    }
  }
  dial(tasks, credentials, until);
  for (const AskedTask& task : tasks) tell_about(task, tell);
  // Others may not have got here yet.
  while (answering && answering->asked() < static_cast<int>(tasks.size()) && all_answered(tasks) &&
         std::chrono::steady_clock::now() < until) {
    internal::sleep_for(kBetweenTries);
  }
}

}  // namespace cohort::cli
