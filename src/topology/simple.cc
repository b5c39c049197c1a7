#include <utility>

#include "cohort/cluster_resolver.h"

namespace cohort {

SimpleClusterResolver::SimpleClusterResolver(ClusterSpec cluster_spec,
                                             SimpleResolverOptions options)
    : cluster_spec_(std::move(cluster_spec)),
      master_(std::move(options.master)),
      num_accelerators_(std::move(options.num_accelerators)) {
  task_type_ = std::move(options.task_type);
  task_id_ = options.task_id;
  rpc_layer_ = std::move(options.rpc_layer);
  environment_ = std::move(options.environment);
}

std::string SimpleClusterResolver::find_master(const Request& request) const {
  const Request whole = completed(request);
  if (request.task_type && request.task_id) return address_of(cluster_spec_, whole);
  const std::string layer = whole.rpc_layer.value_or("");
  return layer.empty() || master_.empty() ? master_ : layer + "://" + master_;
}

std::map<std::string, int> SimpleClusterResolver::count_accelerators(const Request&) const {
  return num_accelerators_;
}

}  // namespace cohort
