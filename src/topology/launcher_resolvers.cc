#include <sys/socket.h>
#include <unistd.h>

#include "topology/address.h"
#include "topology/launcher.h"
#include "topology/text.h"

namespace cohort {
namespace {

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
  const std::optional<int> descriptor = text ? internal::parse_index(*text) : std::nullopt;
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

bool is_this_host(const std::string& name) {
  char own[256] = {};
  gethostname(own, sizeof(own) - 1);
  return internal::is_loopback(name) || name == own;
}

// Programs that start processes as torchrun does often set only RANK and WORLD_SIZE. MASTER_ADDR
// then tells whether the other processes are on this host.
std::optional<Local> torchrun_local_place(int rank, int world_size,
                                          const LauncherOptions& options) {
  std::optional<int> size = number_if_set("LOCAL_WORLD_SIZE");
  const std::optional<int> local_rank = number_if_set("LOCAL_RANK");
  const std::string master = environment_variable("MASTER_ADDR").value_or("localhost");
  const bool may_share_host = local_rank.value_or(rank) == rank && is_this_host(master);
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

OpenMpiClusterResolver::OpenMpiClusterResolver(const LauncherOptions& options) {
  constexpr const char* kOpenMpi = "OpenMpi";
  std::optional<std::string> job = internal::environment_variable("PMIX_NAMESPACE");
  if (!job) job = internal::environment_variable("OMPI_MCA_ess_base_jobid");
  const internal::LaunchedProcess process{
      .launcher = kOpenMpi,
      .local_variables = "OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_LOCAL_SIZE",
      .rank = internal::require_number("OMPI_COMM_WORLD_RANK", kOpenMpi),
      .world_size = internal::require_number("OMPI_COMM_WORLD_SIZE", kOpenMpi),
      .local =
          internal::LaunchedProcess::Local{
              .rank = internal::require_number("OMPI_COMM_WORLD_LOCAL_RANK", kOpenMpi),
              .size = internal::require_number("OMPI_COMM_WORLD_LOCAL_SIZE", kOpenMpi)},
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
