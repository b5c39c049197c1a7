#include <sys/socket.h>

#include <algorithm>
#include <cstdint>

#include "base/hash.h"
#include "base/host_identity.h"
#include "base/raise.h"
#include "base/text.h"
#include "topology/address.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {

// What a launcher tells a process about its place.
struct LaunchedProcess {
  struct Local {
    int rank;  // among the processes of this host
    int size;
  };
  const char* launcher;  // "Torchrun", for messages: TorchrunClusterResolver
  const char* local_variables;
  int rank;                        // among all processes
  int world_size;                  // number of all processes
  std::optional<Local> local;      // empty if the launcher does not say
  std::string this_host;           // the name to use if all processes are on one host
  std::optional<std::string> job;  // a name that no other job has at the same time
};

namespace {

void check_process(const LaunchedProcess& process) {
  const LaunchedProcess::Local local = process.local.value_or(LaunchedProcess::Local{0, 1});
  if (process.world_size >= 1 && process.rank < process.world_size && local.size >= 1 &&
      local.rank < local.size && local.size <= process.world_size) {
    return;
  }
  raise(Code::InvalidArgument,
        "[{}] the variables contradict each other: rank {} of {}, on this host {} of {}",
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
        "[{}] rank {} is number {} of {} on its host, which contradicts the hostfile; the "
        "processes must fill the hosts in the file's order, slot by slot",
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

std::vector<HostSlots> hosts_of(const LaunchedProcess& process, const LauncherOptions& options) {
  if (options.hostfile.empty()) {
    check_one_host(process);
    return {{process.this_host, process.world_size}};
  }
  const std::vector<HostSlots> hosts = filled(read_hostfile(options.hostfile), process);
  check_place(hosts, process);
  return hosts;
}

// The addresses of all processes by rank. Throws FailedPrecondition if the processes may be on
// several hosts and the options name no hostfile, if the hostfile has too few slots, or if this
// process is not where the hostfile puts its rank.
std::vector<std::string> launched_addresses(const LaunchedProcess& process,
                                            const LauncherOptions& options) {
  check_process(process);
  const std::vector<HostSlots> hosts = hosts_of(process, options);
  const int most = std::ranges::max_element(hosts, {}, &HostSlots::slots)->slots;
  return slot_addresses(hosts, job_port_base(options.port_base, process.job, most),
                        process.launcher);
}

}  // namespace

int job_port_base(std::optional<int> given, const std::optional<std::string>& job, int tasks) {
  constexpr int kUnnamed = 8888;
  // Below 32768, where Linux begins to hand out ports to programs that do not ask for one.
  constexpr int kFirst = 10'000;
  constexpr int kCount = 22'000;
  if (given) return *given;
  if (!job || tasks >= kCount) return kUnnamed;
  return kFirst + static_cast<int>(hash_text(*job) % static_cast<uint64_t>(kCount - tasks));
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

using internal::environment_variable;
using internal::require_number;
using Local = internal::LaunchedProcess::Local;

constexpr const char* kPmi = "Pmi";

std::optional<Local> pmi_local_place(int world_size) {
  if (environment_variable("MPI_LOCALRANKID") && environment_variable("MPI_LOCALNRANKS")) {
    return Local{.rank = require_number("MPI_LOCALRANKID", kPmi),
                 .size = require_number("MPI_LOCALNRANKS", kPmi)};
  }
  return world_size == 1 ? std::optional<Local>({.rank = 0, .size = 1}) : std::nullopt;
}

// MPICH's mpiexec does not name the job in the environment. But it has one process per host, which
// holds the other end of the socket PMI_FD.
std::optional<std::string> owner_of_socket() {
  const std::optional<std::string> text = environment_variable("PMI_FD");
  const std::optional<int> descriptor = text ? internal::parse_non_negative(*text) : std::nullopt;
  ucred owner = {};
  socklen_t size = sizeof(owner);
  if (!descriptor || getsockopt(*descriptor, SOL_SOCKET, SO_PEERCRED, &owner, &size) != 0 ||
      owner.pid <= 0) {
    return std::nullopt;
  }
  return std::to_string(owner.pid);
}

std::optional<std::string> pmi_job(bool one_host) {
  if (std::optional<std::string> id = environment_variable("PMI_JOBID")) return id;
  return one_host ? owner_of_socket() : std::nullopt;
}

constexpr const char* kTorchrun = "Torchrun";

std::optional<int> number_if_set(const char* name) {
  if (!environment_variable(name)) return std::nullopt;
  return require_number(name, kTorchrun);
}

// Programs that start processes as torchrun does often set only RANK and WORLD_SIZE. MASTER_ADDR
// then tells whether the other processes are on this host.
std::optional<Local> torchrun_local_place(int rank, int world_size,
                                          const LauncherOptions& options) {
  std::optional<int> size = number_if_set("LOCAL_WORLD_SIZE");
  const std::optional<int> local_rank = number_if_set("LOCAL_RANK");
  const std::string master = environment_variable("MASTER_ADDR").value_or("localhost");
  const bool is_here = internal::is_loopback(master) || master == internal::host_name();
  const bool may_share_host = local_rank.value_or(rank) == rank && is_here;
  if (!size && options.hostfile.empty() && may_share_host) size = world_size;
  if (!size || (!local_rank && *size != world_size)) return std::nullopt;
  return Local{.rank = local_rank.value_or(rank), .size = *size};
}

// All processes of a job share both values. Each value alone may be that of another job as well,
// because MASTER_PORT and the id of the run often keep their defaults.
std::optional<std::string> torchrun_job() {
  const std::optional<std::string> port = environment_variable("MASTER_PORT");
  const std::optional<std::string> run = environment_variable("TORCHELASTIC_RUN_ID");
  if (!port && !run) return std::nullopt;
  return port.value_or("") + "/" + run.value_or("");
}

}  // namespace

namespace internal {

void RankedClusterResolver::deal(Ranks ranks) {
  const size_t tasks = ranks.addresses.size();
  if (ranks.rank && static_cast<size_t>(*ranks.rank) >= tasks) {
    raise(Code::FailedPrecondition, "[{}] this is process {}, but there are only {} processes",
          ranks.operation, *ranks.rank, tasks);
  }
  int next = 0;
  for (const auto& [job, count] : checked_jobs(std::move(ranks.jobs), tasks, ranks.operation)) {
    const auto first = ranks.addresses.begin() + next;
    jobs_.push_back({job, TaskList(first, first + count)});
    if (ranks.rank && *ranks.rank >= next && *ranks.rank < next + count) {
      local_type_ = job;
      local_id_ = *ranks.rank - next;
    }
    next += count;
  }
}

void RankedClusterResolver::deal(const LaunchedProcess& process, const LauncherOptions& options) {
  rpc_layer_ = options.rpc_layer;
  deal({launched_addresses(process, options), options.jobs, process.rank, process.launcher});
}

ClusterSpec RankedClusterResolver::cluster_spec() const { return jobs_; }

std::optional<std::string> RankedClusterResolver::task_type() const {
  return task_type_ ? task_type_ : local_type_;
}

std::optional<int> RankedClusterResolver::task_id() const {
  return task_id_ ? task_id_ : local_id_;
}

}  // namespace internal

OpenMpiClusterResolver::OpenMpiClusterResolver(const LauncherOptions& options) {
  constexpr const char* kOpenMpi = "OpenMpi";
  std::optional<std::string> job = environment_variable("PMIX_NAMESPACE");
  if (!job) job = environment_variable("OMPI_MCA_ess_base_jobid");
  const internal::LaunchedProcess process{
      .launcher = kOpenMpi,
      .local_variables = "OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_LOCAL_SIZE",
      .rank = require_number("OMPI_COMM_WORLD_RANK", kOpenMpi),
      .world_size = require_number("OMPI_COMM_WORLD_SIZE", kOpenMpi),
      .local = Local{.rank = require_number("OMPI_COMM_WORLD_LOCAL_RANK", kOpenMpi),
                     .size = require_number("OMPI_COMM_WORLD_LOCAL_SIZE", kOpenMpi)},
      .this_host = "localhost",
      .job = std::move(job)};
  deal(process, options);
}

PmiClusterResolver::PmiClusterResolver(const LauncherOptions& options) {
  const int world_size = require_number("PMI_SIZE", kPmi);
  const std::optional<Local> local = pmi_local_place(world_size);
  const internal::LaunchedProcess process{.launcher = kPmi,
                                          .local_variables = "MPI_LOCALRANKID and MPI_LOCALNRANKS",
                                          .rank = require_number("PMI_RANK", kPmi),
                                          .world_size = world_size,
                                          .local = local,
                                          .this_host = "localhost",
                                          .job = pmi_job(options.hostfile.empty())};
  deal(process, options);
}

TorchrunClusterResolver::TorchrunClusterResolver(const LauncherOptions& options) {
  const int rank = require_number("RANK", kTorchrun);
  const int world_size = require_number("WORLD_SIZE", kTorchrun);
  const std::string master = environment_variable("MASTER_ADDR").value_or("localhost");
  const internal::LaunchedProcess process{
      .launcher = kTorchrun,
      .local_variables = "LOCAL_RANK and LOCAL_WORLD_SIZE",
      .rank = rank,
      .world_size = world_size,
      .local = torchrun_local_place(rank, world_size, options),
      // Other hosts could reach the processes by any other name.
      .this_host = internal::is_loopback(master) ? master : "localhost",
      .job = torchrun_job()};
  deal(process, options);
}

}  // namespace cohort
