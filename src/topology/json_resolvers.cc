#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/raise.h"
#include "base/text.h"
#include "topology/address.h"
#include "topology/json_text.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

constexpr JsonSource kTFConfig{"TFConfig", "TF_CONFIG"};

template <typename... Args>
[[noreturn]] void raise_bad(fmt::format_string<Args...> text, Args&&... args) {
  raise(Code::InvalidArgument, "[TFConfig] in TF_CONFIG {}",
        fmt::format(text, std::forward<Args>(args)...));
}

// Without this check a misspelt key would be ignored.
void check_keys(const Json& object, std::span<const std::string> known, std::string_view where) {
  for (const auto& [key, value] : object.items()) {
    const std::string meant = did_you_mean(key, known);
    if (!meant.empty()) raise_bad("{} has the unknown key '{}'{}", where, excerpt(key), meant);
  }
}

std::string read_address(const Json& value, const std::string& job) {
  if (!value.is_string()) {
    raise_bad("an address of job '{}' is {}; expected a text \"host:port\"", excerpt(job),
              kind_of(value));
  }
  std::string address = value.get<std::string>();
  if (trimmed(address).empty()) {
    raise_bad("an address of job '{}' is empty; expected \"host:port\"", excerpt(job));
  }
  if (address.find_first_of(" \t\r\n") != std::string::npos) {
    raise_bad("the address '{}' of job '{}' has white space in it; expected \"host:port\"",
              excerpt(address), excerpt(job));
  }
  return address;
}

TaskMap read_sparse_tasks(const Json& tasks, const std::string& job) {
  TaskMap by_index;
  for (const auto& [key, value] : tasks.items()) {
    const std::optional<int> index = parse_non_negative(key);
    if (!index) {
      raise_bad("'{}' is not a task index of job '{}'; expected \"0\", \"1\", ...", excerpt(key),
                excerpt(job));
    }
    if (!by_index.emplace(*index, read_address(value, job)).second) {
      raise_bad("task {} of job '{}' is given twice", *index, excerpt(job));
    }
  }
  return by_index;
}

JobTasks read_tasks(const Json& tasks, const std::string& job) {
  if (tasks.is_object()) return read_sparse_tasks(tasks, job);
  if (!tasks.is_array()) {
    raise_bad("the tasks of job '{}' are {}; expected a list of \"host:port\"", excerpt(job),
              kind_of(tasks));
  }
  TaskList addresses;
  for (const Json& address : tasks) addresses.push_back(read_address(address, job));
  return addresses;
}

ClusterSpec read_cluster(const Json& cluster) {
  if (!cluster.is_object()) {
    raise_bad("\"cluster\" is {}; expected an object such as {{\"worker\": [\"host:port\"]}}",
              kind_of(cluster));
  }
  std::vector<ClusterJob> jobs;
  for (const auto& [job, tasks] : cluster.items()) {
    if (job.empty()) raise_bad("a job has an empty name");
    jobs.push_back({job, read_tasks(tasks, job)});
  }
  return jobs;
}

int read_task_index(const Json& value) {
  std::optional<int> index;
  if (value.is_string()) index = parse_non_negative(value.get_ref<const std::string&>());
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    index = value.get<int>();
  }
  if (!index) {
    raise_bad("the task's \"index\" is {}; expected a number 0, 1, 2, ...",
              excerpt(value.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return *index;
}

void read_task(const Json& task, TFConfig& config) {
  static const std::array<std::string, 2> kKeys = {"type", "index"};
  if (!task.is_object()) {
    raise_bad("\"task\" is {}; expected an object such as {{\"type\": \"worker\", \"index\": 0}}",
              kind_of(task));
  }
  check_keys(task, kKeys, "\"task\"");
  config.task_type = text_member(task, "type", kTFConfig);
  if (config.task_type && config.task_type->empty()) raise_bad("the task's \"type\" is empty");
  if (const auto index = task.find("index"); index != task.end()) {
    config.task_id = read_task_index(*index);
  }
}

}  // namespace

TFConfig parse_tf_config(std::string_view text) {
  static const std::array<std::string, 5> kKeys = {"cluster", "task", "rpc_layer", "session_master",
                                                   "environment"};
  const Json json = parse_json(text, kTFConfig);
  if (!json.is_object()) {
    raise(Code::InvalidArgument,
          "[TFConfig] TF_CONFIG is {}; expected an object with \"cluster\" and \"task\"",
          kind_of(json));
  }
  check_keys(json, kKeys, "the outer object");
  TFConfig config;
  if (const auto cluster = json.find("cluster"); cluster != json.end()) {
    config.cluster = read_cluster(*cluster);
  }
  if (const auto task = json.find("task"); task != json.end()) read_task(*task, config);
  config.rpc_layer = text_member(json, "rpc_layer", kTFConfig);
  config.session_master = text_member(json, "session_master", kTFConfig);
  config.environment = text_member(json, "environment", kTFConfig);
  return config;
}

}  // namespace cohort::internal

namespace cohort {
namespace {

internal::TFConfig read_tf_config() {
  return internal::parse_tf_config(internal::environment_variable("TF_CONFIG").value_or("{}"));
}

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
  static std::atomic<bool> has_warned = false;
  if (has_warned.exchange(true)) return;
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
