#include "cohort/scheduler_resolvers.h"
#include "topology/text.h"

namespace cohort {
namespace {

bool is_set(const std::string& name) { return internal::environment_variable(name).has_value(); }

std::shared_ptr<ClusterResolver> resolver_by_variables() {
  if (is_set("TF_CONFIG")) return std::make_shared<TFConfigClusterResolver>();
  // Outside of a job step (in a batch script) Slurm sets the rank, but there are no other ranks.
  if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_NODELIST")) {
    return std::make_shared<SlurmClusterResolver>();
  }
  if (is_set("OMPI_COMM_WORLD_RANK")) return std::make_shared<OpenMpiClusterResolver>();
  if (is_set("RANK") && is_set("LOCAL_WORLD_SIZE")) {
    return std::make_shared<TorchrunClusterResolver>();
  }
  if (is_set("SM_HOSTS")) return std::make_shared<SageMakerClusterResolver>();
  return std::make_shared<SimpleClusterResolver>(ClusterSpec());
}

}  // namespace

std::shared_ptr<ClusterResolver> resolver_from_environment() {
  std::shared_ptr<ClusterResolver> resolver = resolver_by_variables();
  (void)resolver->cluster_spec();
  return resolver;
}

}  // namespace cohort
