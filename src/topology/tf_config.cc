#include <utility>

#include "cohort/cluster_resolver.h"
#include "topology/text.h"
#include "topology/tf_config_text.h"

namespace cohort {
namespace {

internal::TFConfig read_tf_config() {
  return internal::parse_tf_config(internal::environment_variable("TF_CONFIG").value_or("{}"));
}

}  // namespace

TFConfigClusterResolver::TFConfigClusterResolver(TFConfigOptions options) {
  task_type_ = std::move(options.task_type);
  task_id_ = options.task_id;
  rpc_layer_ = std::move(options.rpc_layer);
  environment_ = std::move(options.environment);
}

ClusterSpec TFConfigClusterResolver::cluster_spec() const { return read_tf_config().cluster; }

std::optional<std::string> TFConfigClusterResolver::task_type() const {
  return task_type_ ? task_type_ : read_tf_config().task_type;
}

std::optional<int> TFConfigClusterResolver::task_id() const {
  return task_id_ ? task_id_ : read_tf_config().task_id;
}

std::string TFConfigClusterResolver::rpc_layer() const {
  return rpc_layer_ ? *rpc_layer_ : read_tf_config().rpc_layer.value_or("");
}

std::string TFConfigClusterResolver::environment() const {
  return environment_ ? *environment_ : read_tf_config().environment.value_or("");
}

std::string TFConfigClusterResolver::find_master(const Request& request) const {
  const internal::TFConfig config = read_tf_config();
  if (config.session_master) return *config.session_master;
  return address_unless_alone(config.cluster, completed(request));
}

std::map<std::string, int> TFConfigClusterResolver::count_accelerators(
    const Request& request) const {
  return ClusterResolver::count_accelerators(completed(request));
}

}  // namespace cohort
