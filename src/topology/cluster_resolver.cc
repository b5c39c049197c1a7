#include "cohort/cluster_resolver.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/device.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {

std::optional<std::vector<std::string>> named_gpus() {
  const std::optional<std::string> value = environment_variable("CUDA_VISIBLE_DEVICES");
  if (!value) return std::nullopt;
  std::vector<std::string> ids;
  for (const std::string_view part : split(*value, ',')) {
    const std::string_view id = trimmed(part);
    if (id.empty() || id == "-1") break;
    ids.emplace_back(id);
  }
  return ids;
}

int installed_gpu_count() {
  std::error_code none;
  const std::filesystem::directory_iterator found("/proc/driver/nvidia/gpus", none);
  return none ? 0 : static_cast<int>(std::distance(begin(found), end(found)));
}

}  // namespace cohort::internal

namespace cohort {
namespace {

// How many of the installed GPUs this process may use, or how many it simulates. Asks the system,
// not the kernel library.
int visible_gpu_count() {
  const auto simulated = internal::environment_variable("COHORT_SIMULATED_GPUS");
  if (simulated) return internal::parse_non_negative(*simulated).value_or(0);
  const int installed = internal::installed_gpu_count();
  const std::optional<std::vector<std::string>> named = internal::named_gpus();
  return named ? std::min(installed, static_cast<int>(named->size())) : installed;
}

using JobForms = std::vector<std::variant<TaskList, TaskMap>>;  // one job as each resolver has it

TaskList concatenated(const JobForms& forms) {
  TaskList all;
  for (const auto& form : forms) {
    const TaskList& list = std::get<TaskList>(form);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

TaskMap united(const std::string& job, const JobForms& forms) {
  TaskMap all;
  for (const auto& form : forms) {
    for (const auto& [index, address] : JobTasks(form).by_index()) {
      if (all.emplace(index, address).second) continue;
      internal::raise(Code::AlreadyExists,
                      "[Union] task {} of job '{}' is '{}' in one cluster and '{}' in another; "
                      "indices that are given must differ",
                      index, job, all.at(index), address);
    }
  }
  return all;
}

JobTasks merged(const std::string& job, const JobForms& forms) {
  const bool lists = std::ranges::all_of(
      forms, [](const auto& form) { return std::holds_alternative<TaskList>(form); });
  return lists ? JobTasks(concatenated(forms)) : JobTasks(united(job, forms));
}

// The entry of the job, which is added at the end if it is new: jobs keep their order.
JobForms& forms_of(std::vector<std::pair<std::string, JobForms>>& forms, const std::string& job) {
  for (auto& [name, found] : forms) {
    if (name == job) return found;
  }
  return forms.emplace_back(job, JobForms{}).second;
}

}  // namespace

std::string ClusterResolver::master(const std::optional<std::string>& task_type,
                                    const std::optional<int>& task_id,
                                    const std::optional<std::string>& rpc_layer) const {
  return find_master({task_type, task_id, rpc_layer});
}

std::map<std::string, int> ClusterResolver::num_accelerators(
    const std::optional<std::string>& task_type, const std::optional<int>& task_id) const {
  return count_accelerators({task_type, task_id});
}

ClusterResolver::Request ClusterResolver::completed(const Request& request) const {
  return {request.task_type ? request.task_type : task_type(),
          request.task_id ? request.task_id : task_id(),
          request.rpc_layer ? request.rpc_layer : rpc_layer()};
}

std::string ClusterResolver::address_of(const ClusterSpec& cluster, const Request& request) {
  if (!request.task_type || !request.task_id) {
    internal::raise(Code::InvalidArgument,
                    "[Master] the task type and index of this process in {} are not known; give "
                    "both to the resolver",
                    cluster.to_string());
  }
  const std::string address = cluster.task_address(*request.task_type, *request.task_id);
  const std::string layer = request.rpc_layer.value_or("");
  return layer.empty() ? address : layer + "://" + address;
}

std::string ClusterResolver::address_unless_alone(const ClusterSpec& cluster,
                                                  const Request& request) {
  const std::vector<std::string> jobs = cluster.jobs();
  const bool alone = jobs.empty() || (jobs.size() == 1 && cluster.num_tasks(jobs[0]) == 1);
  return alone ? "" : address_of(cluster, request);
}

std::string ClusterResolver::find_master(const Request& request) const {
  const Request whole = completed(request);
  return whole.task_type && whole.task_id ? address_of(cluster_spec(), whole) : "";
}

std::map<std::string, int> ClusterResolver::count_accelerators(const Request& request) const {
  std::map<std::string, int> counts;
  for (const std::string& device : visible_devices()) {
    const DeviceName name = DeviceName::parse(device);
    const bool of_one_task = request.task_type && request.task_id;
    if (of_one_task && (name.job != request.task_type || name.task != request.task_id)) continue;
    if (name.type && *name.type != "CPU") ++counts[*name.type];
  }
  return counts;
}

std::vector<std::string> ClusterResolver::visible_devices() const {
  DeviceName name;
  name.job = task_type().value_or("localhost");
  name.replica = 0;
  name.task = task_id().value_or(0);
  name.type = "GPU";
  std::vector<std::string> devices;
  for (int i = 0; i < visible_gpu_count(); ++i) {
    name.index = i;
    devices.push_back(name.to_string());
  }
  return devices;
}

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

UnionClusterResolver::UnionClusterResolver(Resolvers resolvers, UnionResolverOptions options)
    : resolvers_(std::move(resolvers)) {
  if (resolvers_.empty()) {
    internal::raise(Code::InvalidArgument, "[Union] expected at least one resolver, found none");
  }
  if (std::ranges::find(resolvers_, nullptr) != resolvers_.end()) {
    internal::raise(Code::InvalidArgument, "[Union] one of the {} resolvers is null",
                    resolvers_.size());
  }
  task_type_ = std::move(options.task_type);
  task_id_ = options.task_id;
  rpc_layer_ = std::move(options.rpc_layer);
}

ClusterSpec UnionClusterResolver::cluster_spec() const {
  std::vector<std::pair<std::string, JobForms>> forms;
  for (const auto& resolver : resolvers_) {
    const ClusterSpec spec = resolver->cluster_spec();
    const ClusterDict dict = spec.as_dict();
    for (const std::string& job : spec.jobs()) forms_of(forms, job).push_back(dict.at(job));
  }
  std::vector<ClusterJob> jobs;
  for (const auto& [job, found] : forms) jobs.push_back({job, merged(job, found)});
  return jobs;
}

std::optional<std::string> UnionClusterResolver::task_type() const {
  return task_type_ ? task_type_ : resolvers_[0]->task_type();
}

std::optional<int> UnionClusterResolver::task_id() const {
  return task_id_ ? task_id_ : resolvers_[0]->task_id();
}

std::string UnionClusterResolver::rpc_layer() const {
  return rpc_layer_ ? *rpc_layer_ : resolvers_[0]->rpc_layer();
}

std::string UnionClusterResolver::environment() const { return resolvers_[0]->environment(); }

std::string UnionClusterResolver::find_master(const Request& request) const {
  if (request.task_type && request.task_id) {
    return address_of(cluster_spec(), completed(request));
  }
  return resolvers_[0]->master(request.task_type, request.task_id,
                               request.rpc_layer ? request.rpc_layer : rpc_layer_);
}

std::map<std::string, int> UnionClusterResolver::count_accelerators(const Request& request) const {
  return resolvers_[0]->num_accelerators(request.task_type, request.task_id);
}

}  // namespace cohort
