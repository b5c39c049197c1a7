#include "topology/launcher.h"
#include "topology/text.h"

namespace cohort {

OpenMpiClusterResolver::OpenMpiClusterResolver(const LauncherOptions& options) {
  constexpr const char* kOperation = "OpenMpi";
  const auto number = [](const char* name) { return internal::require_number(name, kOperation); };
  const internal::LaunchedProcess process{.launcher = kOperation,
                                          .rank = number("OMPI_COMM_WORLD_RANK"),
                                          .world_size = number("OMPI_COMM_WORLD_SIZE"),
                                          .local_rank = number("OMPI_COMM_WORLD_LOCAL_RANK"),
                                          .local_size = number("OMPI_COMM_WORLD_LOCAL_SIZE"),
                                          .this_host = "localhost"};
  rpc_layer_ = options.rpc_layer;
  deal({internal::launched_addresses(process, options), options.jobs, process.rank, kOperation});
}

}  // namespace cohort
