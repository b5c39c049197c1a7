#include <sys/socket.h>

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

// MPICH's mpiexec names no job in the environment. But one process of it per host is at the other
// end of the socket that each of its processes has as PMI_FD.
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

}  // namespace

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

}  // namespace cohort
