#include "topology/launcher.h"
#include "topology/text.h"

namespace cohort {

TorchrunClusterResolver::TorchrunClusterResolver(const LauncherOptions& options) {
  constexpr const char* kOperation = "Torchrun";
  const auto number = [](const char* name) { return internal::require_number(name, kOperation); };
  const internal::LaunchedProcess process{
      .launcher = kOperation,
      .rank = number("RANK"),
      .world_size = number("WORLD_SIZE"),
      .local_rank = number("LOCAL_RANK"),
      .local_size = number("LOCAL_WORLD_SIZE"),
      .this_host = internal::environment_variable("MASTER_ADDR").value_or("localhost")};
  rpc_layer_ = options.rpc_layer;
  deal({internal::launched_addresses(process, options), options.jobs, process.rank, kOperation});
}

}  // namespace cohort
