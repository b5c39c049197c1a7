#include "topology/launcher.h"
#include "topology/text.h"

namespace cohort {

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

}  // namespace cohort
