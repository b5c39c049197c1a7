#include <algorithm>

#include "base/raise.h"
#include "cohort/cluster_resolver.h"

namespace cohort {
namespace {

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
  const bool lists = std::all_of(forms.begin(), forms.end(), [](const auto& form) {
    return std::holds_alternative<TaskList>(form);
  });
  return lists ? JobTasks(concatenated(forms)) : JobTasks(united(job, forms));
}

// `forms[job]`, a new entry at the end when there is none: jobs keep the order they come in.
JobForms& forms_of(std::vector<std::pair<std::string, JobForms>>& forms, const std::string& job) {
  for (auto& [name, found] : forms) {
    if (name == job) return found;
  }
  return forms.emplace_back(job, JobForms{}).second;
}

}  // namespace

UnionClusterResolver::UnionClusterResolver(Resolvers resolvers, UnionResolverOptions options)
    : resolvers_(std::move(resolvers)) {
  if (resolvers_.empty()) {
    internal::raise(Code::InvalidArgument, "[Union] expected at least one resolver, found none");
  }
  if (std::find(resolvers_.begin(), resolvers_.end(), nullptr) != resolvers_.end()) {
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
