#include "topology/launcher.h"

#include <algorithm>
#include <cstdint>

#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/hostfile.h"

namespace cohort::internal {
namespace {

void check_process(const LaunchedProcess& process) {
  const LaunchedProcess::Local local = process.local.value_or(LaunchedProcess::Local{0, 1});
  if (process.world_size >= 1 && process.rank < process.world_size && local.size >= 1 &&
      local.rank < local.size && local.size <= process.world_size) {
    return;
  }
  raise(Code::InvalidArgument,
        "[{}] the variables do not fit together: rank {} of {}, on this host {} of {}",
        process.launcher, process.rank, process.world_size, local.rank, local.size);
}

// The hosts with as many slots as they have processes. Processes fill the hosts in order.
std::vector<HostSlots> filled(std::vector<HostSlots> hosts, const LaunchedProcess& process) {
  int left = process.world_size;
  std::vector<HostSlots> used;
  for (const HostSlots& host : hosts) {
    if (left == 0) break;
    used.push_back({host.host, std::min(host.slots, left)});
    left -= used.back().slots;
  }
  if (left > 0) {
    raise(Code::FailedPrecondition,
          "[{}] the hostfile has {} slots, but there are {} processes; give it the slots that the "
          "launcher used",
          process.launcher, process.world_size - left, process.world_size);
  }
  return used;
}

void check_place(const std::vector<HostSlots>& hosts, const LaunchedProcess& process) {
  if (!process.local) return;
  int first = 0;
  for (const HostSlots& host : hosts) {
    if (process.rank < first + host.slots) {
      if (process.rank - first == process.local->rank && host.slots == process.local->size) return;
      break;
    }
    first += host.slots;
  }
  raise(Code::FailedPrecondition,
        "[{}] rank {} is number {} of {} on its host, but not by the hostfile; the processes must "
        "fill the hosts in the file's order, slot by slot",
        process.launcher, process.rank, process.local->rank, process.local->size);
}

// Without a hostfile all processes must be on this host.
void check_one_host(const LaunchedProcess& process) {
  if (!process.local && process.world_size > 1) {
    raise(Code::FailedPrecondition,
          "[{0}] the variables do not say how many of the {1} processes are on this host; set {2}, "
          "give the strategy a {0}ClusterResolver with the hostfile, or set TF_CONFIG",
          process.launcher, process.world_size, process.local_variables);
  }
  if (process.local && process.local->size != process.world_size) {
    raise(Code::FailedPrecondition,
          "[{0}] {1} of {2} processes are on this host, and the variables do not name the others; "
          "give the hostfile to a {0}ClusterResolver, or set TF_CONFIG",
          process.launcher, process.local->size, process.world_size);
  }
}

int most_slots(const std::vector<HostSlots>& hosts) {
  return std::max_element(hosts.begin(), hosts.end(),
                          [](const HostSlots& a, const HostSlots& b) { return a.slots < b.slots; })
      ->slots;
}

std::vector<HostSlots> hosts_of(const LaunchedProcess& process, const LauncherOptions& options) {
  if (options.hostfile.empty()) {
    check_one_host(process);
    return {{process.this_host, process.world_size}};
  }
  const std::vector<HostSlots> hosts = filled(read_hostfile(options.hostfile), process);
  check_place(hosts, process);
  return hosts;
}

}  // namespace

std::vector<std::string> launched_addresses(const LaunchedProcess& process,
                                            const LauncherOptions& options) {
  check_process(process);
  const std::vector<HostSlots> hosts = hosts_of(process, options);
  return slot_addresses(hosts, job_port_base(options.port_base, process.job, most_slots(hosts)),
                        process.launcher);
}

int job_port_base(std::optional<int> given, const std::optional<std::string>& job, int tasks) {
  constexpr int kUnnamed = 8888;
  // Below 32768, where Linux begins to hand out ports to programs that do not ask for one.
  constexpr int kFirst = 10'000;
  constexpr int kCount = 22'000;
  if (given) return *given;
  if (!job || tasks >= kCount) return kUnnamed;
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a: the same in every process, whatever its library
  for (const char c : *job) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return kFirst + static_cast<int>(hash % static_cast<uint64_t>(kCount - tasks));
}

}  // namespace cohort::internal

namespace cohort {
namespace {

// The jobs that were asked for, or else all tasks as workers. Checks the number of tasks.
std::map<std::string, int> checked_jobs(std::map<std::string, int> jobs, size_t tasks,
                                        const char* operation) {
  if (jobs.empty()) jobs["worker"] = static_cast<int>(tasks);
  int64_t wanted = 0;
  for (const auto& [name, count] : jobs) {
    if (count < 0) {
      internal::raise(Code::InvalidArgument, "[{}] job '{}' cannot have {} tasks", operation, name,
                      count);
    }
    wanted += count;
  }
  if (wanted != static_cast<int64_t>(tasks)) {
    internal::raise(Code::FailedPrecondition,
                    "[{}] the jobs need {} tasks, but {} were started; make the two agree",
                    operation, wanted, tasks);
  }
  return jobs;
}

}  // namespace

void RankedClusterResolver::deal(Ranks ranks) {
  const size_t tasks = ranks.addresses.size();
  if (ranks.rank && static_cast<size_t>(*ranks.rank) >= tasks) {
    internal::raise(Code::FailedPrecondition, "[{}] this is process {}, but there are only {}",
                    ranks.operation, *ranks.rank, tasks);
  }
  int next = 0;
  for (const auto& [job, count] : checked_jobs(std::move(ranks.jobs), tasks, ranks.operation)) {
    const auto first = ranks.addresses.begin() + next;
    jobs_.push_back({job, TaskList(first, first + count)});
    if (ranks.rank && *ranks.rank >= next && *ranks.rank < next + count) {
      own_type_ = job;
      own_id_ = *ranks.rank - next;
    }
    next += count;
  }
}

void RankedClusterResolver::deal(const internal::LaunchedProcess& process,
                                 const LauncherOptions& options) {
  rpc_layer_ = options.rpc_layer;
  deal({internal::launched_addresses(process, options), options.jobs, process.rank,
        process.launcher});
}

ClusterSpec RankedClusterResolver::cluster_spec() const { return jobs_; }

std::optional<std::string> RankedClusterResolver::task_type() const {
  return task_type_ ? task_type_ : own_type_;
}

std::optional<int> RankedClusterResolver::task_id() const { return task_id_ ? task_id_ : own_id_; }

}  // namespace cohort
