#include "topology/launcher.h"
#include "topology/text.h"

namespace cohort {

OpenMpiClusterResolver::OpenMpiClusterResolver(const LauncherOptions& options) {
  constexpr const char* kOperation = "OpenMpi";
  const auto number = [](const char* name) { return internal::require_number(name, kOperation); };
  std::optional<std::string> job = internal::environment_variable("PMIX_NAMESPACE");
  if (!job) job = internal::environment_variable("OMPI_MCA_ess_base_jobid");
  const internal::LaunchedProcess process{
      .launcher = kOperation,
      .local_variables = "OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_LOCAL_SIZE",
      .rank = number("OMPI_COMM_WORLD_RANK"),
      .world_size = number("OMPI_COMM_WORLD_SIZE"),
      .local = internal::LaunchedProcess::Local{.rank = number("OMPI_COMM_WORLD_LOCAL_RANK"),
                                                .size = number("OMPI_COMM_WORLD_LOCAL_SIZE")},
      .this_host = "localhost",
      .job = std::move(job)};
  rpc_layer_ = options.rpc_layer;
  deal({internal::launched_addresses(process, options), options.jobs, process.rank, kOperation});
}

}  // namespace cohort
