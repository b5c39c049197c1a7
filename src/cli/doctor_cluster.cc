#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/waiting.h"
#include "cli/doctor.h"
#include "launch/known_tasks.h"
#include "rpc/certificates.h"
#include "rpc/make_endpoint.h"
#include "topology/address.h"

namespace cohort::cli {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(100);
constexpr auto kTryLimit = std::chrono::seconds(2);
constexpr double kClockTolerance = 1.0;  // seconds

// Answers at the address of this task while the cluster is examined. Counts the questions.
class Answering {
 public:
  Answering(const DoctorCluster& cluster, const Credentials& credentials) {
    const TaskId& self = *cluster.self;
    endpoint_ = internal::make_endpoint(
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
  ~Answering() { endpoint_->stop(); }
  int asked() const { return asked_; }

 private:
  std::atomic<int> asked_ = 0;
  std::unique_ptr<internal::Endpoint> endpoint_;
};

void report_task(const AskedTask& task, const Report& report) {
  const std::string name = fmt::format("{} at {}", task.label, task.address);
  if (!task.problem.ok()) {
    return report(Finding::Bad, "connection", fmt::format("{}: {}", name, task.problem.message));
  }
  report(Finding::Good, "connection", fmt::format("{} answers", name));
  if (task.status.version != COHORT_VERSION) {
    report(Finding::Bad, "version",
           fmt::format("{} has version {}, this is {}", name, task.status.version, COHORT_VERSION));
  }
  if (std::abs(task.clock_difference) > kClockTolerance) {
    report(Finding::Remark, "clock",
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

// Asks the tasks that have not answered, all at the same time.
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

// Asks again and again, until all have answered.
void dial(std::vector<AskedTask>& tasks, const Credentials& credentials, internal::Deadline until) {
  ask_tasks(tasks, credentials, kTryLimit);
  const auto ask_again = [&] {
    if (!all_answered(tasks)) ask_silent(tasks, credentials);
    return all_answered(tasks);
  };
  (void)internal::poll_until(until, ask_again, internal::PollPolicy::every(kBetweenTries));
}

}  // namespace

void examine_credentials(const DoctorCluster& cluster, const Credentials& credentials,
                         const Report& report) {
  const Status problem = capture_status([&] {
    internal::check_credentials(credentials, cluster.self ? full_name_of(*cluster.self) : "client");
  });
  if (!problem.ok()) return report(Finding::Bad, "certificates", problem.message);
  if (credentials.has_certificates()) return report(Finding::Good, "certificates", "they fit");
  const bool exposed = internal::spans_hosts(cluster.cluster);
  if (exposed && !credentials.insecure) {
    return report(Finding::Bad, "certificates",
                  "there are none, and servers that other machines reach need them: see "
                  "COHORT_CREDENTIALS, or start the tasks with cohort run");
  }
  report(Finding::Remark, "certificates",
         "there are none: any program that reaches the tasks may use them");
}

void examine_connections(const DoctorCluster& cluster, const Credentials& credentials,
                         std::chrono::milliseconds limit, const Report& report) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::vector<AskedTask> tasks = others(cluster);
  std::optional<Answering> answering;
  if (cluster.self) {
    const Status listens = capture_status([&] { answering.emplace(cluster, credentials); });
    if (!listens.ok()) {
      report(Finding::Remark, "port",
             listens.message + ". If that is this task itself, all is well");
    }
  }
  dial(tasks, credentials, until);
  for (const AskedTask& task : tasks) report_task(task, report);
  if (!answering || !all_answered(tasks)) return;
  // The other tasks may not have asked this one yet.
  const auto all_asked = [&] { return answering->asked() >= static_cast<int>(tasks.size()); };
  (void)internal::poll_until(until, all_asked, internal::PollPolicy::every(kBetweenTries));
}

}  // namespace cohort::cli
