#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/raise.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/json_text.h"
#include "topology/text.h"

namespace cohort {
namespace {

struct SageMakerHosts {
  std::vector<std::string> all;  // sorted
  std::optional<int> own;        // place of the current host, when it is one of them
};

std::string sagemaker_variable(const std::string& name) {
  if (std::optional<std::string> value = internal::environment_variable(name)) return *value;
  internal::raise(Code::InvalidArgument,
                  "[SageMaker] the variable {} is not set; is this a SageMaker training job?",
                  name);
}

SageMakerHosts read_sagemaker_hosts() {
  const std::string hosts = sagemaker_variable("SM_HOSTS");
  const std::string current = sagemaker_variable("SM_CURRENT_HOST");
  const internal::Json json = internal::parse_json(hosts, {"SageMaker", "SM_HOSTS"});
  const bool names =
      json.is_array() && std::all_of(json.begin(), json.end(), [](const auto& one) {
        return one.is_string() && !one.template get_ref<const std::string&>().empty();
      });
  if (!names) {
    internal::raise(Code::InvalidArgument, "[SageMaker] SM_HOSTS is '{}'; expected a list of texts",
                    internal::excerpt(hosts));
  }
  SageMakerHosts found{json.get<std::vector<std::string>>(), {}};
  std::sort(found.all.begin(), found.all.end());
  const auto own = std::find(found.all.begin(), found.all.end(), current);
  if (own != found.all.end()) found.own = static_cast<int>(own - found.all.begin());
  return found;
}

}  // namespace

SageMakerClusterResolver::SageMakerClusterResolver(const SageMakerOptions& options)
    : port_(internal::port_at(options.port, 0, "SageMaker")) {
  task_type_ = options.task_type;
  task_id_ = options.task_id;
  rpc_layer_ = options.rpc_layer;
  environment_ = options.environment;
}

ClusterSpec SageMakerClusterResolver::cluster_spec() const {
  const SageMakerHosts hosts = read_sagemaker_hosts();
  if (!hosts.own) return {};
  TaskList addresses;
  for (const std::string& host : hosts.all) {
    addresses.push_back(internal::address_text(host, port_));
  }
  return {{"worker", addresses}};
}

std::optional<std::string> SageMakerClusterResolver::task_type() const {
  if (task_type_) return task_type_;
  return read_sagemaker_hosts().own ? std::optional<std::string>("worker") : std::nullopt;
}

std::optional<int> SageMakerClusterResolver::task_id() const {
  return task_id_ ? task_id_ : read_sagemaker_hosts().own;
}

std::string SageMakerClusterResolver::find_master(const Request& request) const {
  return address_unless_alone(cluster_spec(), completed(request));
}

std::map<std::string, int> SageMakerClusterResolver::count_accelerators(
    const Request& request) const {
  return ClusterResolver::count_accelerators(completed(request));
}

}  // namespace cohort
