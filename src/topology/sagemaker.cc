#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "cohort/scheduler_resolvers.h"
#include "topology/address.h"
#include "topology/json_text.h"

namespace cohort {
namespace {

struct SageMakerHosts {
  std::vector<std::string> all;  // sorted
  std::optional<int> own;        // place of the current host, if the list has it
};

std::string sagemaker_variable(const std::string& name) {
  if (std::optional<std::string> value = internal::environment_variable(name)) return *value;
  internal::raise(Code::InvalidArgument,
                  "[SageMaker] the variable {} is not set; is this a SageMaker training job?",
                  name);
}

void warn_once(const std::string& hosts, const std::string& current) {
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  internal::log_warning(
      "[SageMaker] SM_CURRENT_HOST '{}' is not in SM_HOSTS '{}', so this process trains alone",
      internal::excerpt(current), internal::excerpt(hosts));
}

SageMakerHosts read_sagemaker_hosts() {
  const std::string hosts = sagemaker_variable("SM_HOSTS");
  const std::string current = sagemaker_variable("SM_CURRENT_HOST");
  const internal::Json json = internal::parse_json(hosts, {"SageMaker", "SM_HOSTS"});
  const bool texts =
      json.is_array() && std::ranges::all_of(json, [](const auto& one) { return one.is_string(); });
  if (!texts) {
    internal::raise(Code::InvalidArgument, "[SageMaker] SM_HOSTS is '{}'; expected a list of texts",
                    internal::excerpt(hosts));
  }
  SageMakerHosts found{json.get<std::vector<std::string>>(), {}};
  const auto empty = std::ranges::find(found.all, "");
  if (empty != found.all.end()) {
    internal::raise(Code::InvalidArgument,
                    "[SageMaker] SM_HOSTS is '{}', whose host {} has no name; expected the names "
                    "of all hosts of the job",
                    internal::excerpt(hosts), empty - found.all.begin());
  }
  std::ranges::sort(found.all);
  const auto own = std::ranges::find(found.all, current);
  if (own != found.all.end()) {
    found.own = static_cast<int>(own - found.all.begin());
  } else {
    warn_once(hosts, current);
  }
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
