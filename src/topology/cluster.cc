#include "cohort/cluster.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <ostream>

#include "base/raise.h"
#include "base/text.h"
#include "cohort/device.h"
#include "topology/resolver_inputs.h"

namespace cohort {
namespace {

using internal::raise;
using internal::tasks_in;

void add_task(TaskMap& tasks, int index, const std::string& address, std::string_view job) {
  if (tasks.emplace(index, address).second) return;
  raise(Code::InvalidArgument, "[ClusterSpec] task {} of {} is given twice, as '{}' and as '{}'",
        index, job, tasks.at(index), address);
}

int index_of(std::string_view text) {
  if (const std::optional<int> index = internal::parse_non_negative(text)) return *index;
  raise(Code::InvalidArgument, "[ClusterSpec] '{}' is not a task index; expected 0, 1, 2, ...",
        internal::excerpt(text));
}

bool is_dense(const TaskMap& tasks) {
  return !tasks.empty() && tasks.begin()->first == 0 &&
         tasks.rbegin()->first == static_cast<int>(tasks.size()) - 1;
}

TaskList addresses_of(const TaskMap& tasks) {
  TaskList addresses;
  for (const auto& [index, address] : tasks) addresses.push_back(address);
  return addresses;
}

std::string text_of(const TaskMap& tasks) {
  const bool dense = is_dense(tasks);
  std::string text;
  for (const auto& [index, address] : tasks) {
    if (!text.empty()) text += ", ";
    text += dense ? fmt::format("'{}'", address) : fmt::format("{}: '{}'", index, address);
  }
  return dense ? fmt::format("[{}]", text) : fmt::format("{{{}}}", text);
}

std::string only_job(const ClusterSpec& cluster) {
  const std::vector<std::string> jobs = cluster.jobs();
  if (jobs.size() == 1) return jobs[0];
  raise(Code::InvalidArgument,
        "[Server] job_name is needed unless the cluster has exactly one job; its jobs are {}",
        internal::quoted_list(jobs));
}

int only_task(const ClusterSpec& cluster, const std::string& job) {
  const std::vector<int> indices = cluster.task_indices(job);
  if (indices.size() == 1) return indices[0];
  raise(Code::InvalidArgument,
        "[Server] task_index is needed unless the job has exactly one task; job '{}' has {}", job,
        indices.size());
}

void check_job(const ClusterSpec& cluster, const std::string& job) {
  if (!cluster.has_job(job)) {
    raise(Code::Internal, "[Server] job '{}' is not in the cluster; its jobs are {}{}", job,
          internal::quoted_list(cluster.jobs()), internal::did_you_mean(job, cluster.jobs()));
  }
  // The devices of the task have the job in their names.
  const std::optional<DeviceName> name = DeviceName::try_parse("/job:" + job);
  if (name && name->job) return;
  raise(Code::InvalidArgument,
        "[Server] the job '{}' cannot be part of a device name; expected a letter, then letters, "
        "digits and _",
        internal::excerpt(job));
}

const std::array<std::string, 5> kRoles = {"chief", "worker", "ps", "evaluator", "master"};

// "master" is an old name of the chief.
bool is_chief_role(const std::string& type) { return type == "chief" || type == "master"; }

int chief_count(const ClusterSpec& cluster) {
  return tasks_in(cluster, "chief") + tasks_in(cluster, "master");
}

void check_role(const std::string& name, std::string_view what) {
  if (std::ranges::find(kRoles, name) != kRoles.end()) return;
  raise(Code::InvalidArgument,
        "[Cluster] the {} '{}' is not a role; expected chief, worker, ps or evaluator{}", what,
        internal::excerpt(name), internal::did_you_mean(name, kRoles));
}

void check_jobs(const ClusterSpec& cluster) {
  for (const std::string& job : cluster.jobs()) check_role(job, "job");
  if (const int chiefs = chief_count(cluster); chiefs > 1) {
    raise(Code::InvalidArgument, "[Cluster] there are {} chief tasks; expected at most one: {}",
          chiefs, cluster.to_string());
  }
  if (const int evaluators = tasks_in(cluster, "evaluator"); evaluators > 1) {
    raise(Code::InvalidArgument, "[Cluster] there are {} evaluator tasks; expected at most one: {}",
          evaluators, cluster.to_string());
  }
}

void check_task(const ClusterSpec& cluster, const std::string& type, int id) {
  check_role(type, "task type");
  const bool evaluator_outside = type == "evaluator" && !cluster.has_job(type);
  if (evaluator_outside && id >= 0) return;
  if (!cluster.has_job(type) && type != "evaluator") {
    raise(Code::InvalidArgument, "[Cluster] this task is a '{}', but the cluster has only {}", type,
          internal::quoted_list(cluster.jobs()));
  }
  if (!cluster.has_task(type, id)) {
    raise(Code::InvalidArgument,
          "[Cluster] this task is number {} of job '{}', which has {} tasks; indices start at 0",
          id, type, tasks_in(cluster, type));
  }
}

void check_trains(const std::string& type) {
  if (type != "ps") return;
  raise(Code::InvalidArgument,
        "[Cluster] this task is a ps, which holds variables and is not a worker; expected chief, "
        "worker or evaluator");
}

// How many tasks of the job come before `id`: its index, if no index is missing.
int place_in_job(const ClusterSpec& cluster, const std::string& job, int id) {
  const std::vector<int> indices = cluster.task_indices(job);
  return static_cast<int>(std::ranges::lower_bound(indices, id) - indices.begin());
}

}  // namespace

internal::IndexedAddress::IndexedAddress(const BracedText& at, BracedText where)
    : index(index_of(at.text)), address(std::move(where.text)) {}

JobTasks::JobTasks(TaskMap tasks) : by_index_(std::move(tasks)) {}

TaskMap JobTasks::by_index() const { return by_index_; }

JobTasks::JobTasks(std::initializer_list<internal::BracedText> addresses) {
  for (const auto& address : addresses) {
    by_index_.emplace(static_cast<int>(by_index_.size()), address.text);
  }
}

JobTasks::JobTasks(std::initializer_list<internal::IndexedAddress> sparse_tasks) {
  for (const auto& task : sparse_tasks) add_task(by_index_, task.index, task.address, "a job");
}

JobTasks::JobTasks(const TaskList& addresses) {
  for (const std::string& address : addresses) {
    by_index_.emplace(static_cast<int>(by_index_.size()), address);
  }
}

JobTasks::JobTasks(const std::map<std::string, std::string>& tasks) {
  for (const auto& [index, address] : tasks) add_task(by_index_, index_of(index), address, "a job");
}

JobTasks::JobTasks(const std::variant<TaskList, TaskMap>& tasks)
    : JobTasks(std::holds_alternative<TaskMap>(tasks) ? JobTasks(std::get<TaskMap>(tasks))
                                                      : JobTasks(std::get<TaskList>(tasks))) {}

ClusterSpec::ClusterSpec(std::initializer_list<ClusterJob> jobs) {
  for (const ClusterJob& job : jobs) add(job.name, job.tasks.by_index());
}
ClusterSpec::ClusterSpec(const std::vector<ClusterJob>& jobs) {
  for (const ClusterJob& job : jobs) add(job.name, job.tasks.by_index());
}
ClusterSpec::ClusterSpec(const std::map<std::string, JobTasks>& jobs) {
  for (const auto& [name, tasks] : jobs) add(name, tasks.by_index());
}
ClusterSpec::ClusterSpec(const std::map<std::string, TaskList>& jobs) {
  for (const auto& [name, tasks] : jobs) add(name, JobTasks(tasks).by_index());
}
ClusterSpec::ClusterSpec(const std::map<std::string, TaskMap>& jobs) {
  for (const auto& [name, tasks] : jobs) add(name, tasks);
}
ClusterSpec::ClusterSpec(const ClusterDict& jobs) {
  for (const auto& [name, tasks] : jobs) add(name, JobTasks(tasks).by_index());
}

ClusterSpec::ClusterSpec(const ClusterDef& def) {
  for (const ClusterDef::Job& job : def.jobs) {
    TaskMap tasks;
    const std::string name = fmt::format("job '{}'", job.name);
    for (const ClusterDef::Task& task : job.tasks) {
      add_task(tasks, task.index, task.address, name);
    }
    add(job.name, std::move(tasks));
  }
}

struct ClusterSpec::Jobs : std::vector<std::pair<std::string, TaskMap>> {};

const ClusterSpec::Jobs& ClusterSpec::all() const {
  static const Jobs none;
  return jobs_ ? *jobs_ : none;
}

ClusterSpec::operator bool() const { return !all().empty(); }

void ClusterSpec::add(std::string name, TaskMap tasks) {
  if (has_job(name)) {
    raise(Code::InvalidArgument, "[ClusterSpec] job '{}' is given twice; name each job once", name);
  }
  if (!tasks.empty() && tasks.begin()->first < 0) {
    raise(Code::InvalidArgument,
          "[ClusterSpec] job '{}' has a task with index {}; expected 0, 1, 2, ...", name,
          tasks.begin()->first);
  }
  auto jobs = std::make_shared<Jobs>(all());
  jobs->emplace_back(std::move(name), std::move(tasks));
  jobs_ = std::move(jobs);
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [name, tasks] : all()) names.push_back(name);
  return names;
}

bool ClusterSpec::has_job(std::string_view job) const {
  return std::ranges::any_of(all(), [&](const auto& one) { return one.first == job; });
}

bool ClusterSpec::has_task(std::string_view job, int index) const {
  return has_job(job) && tasks_of(job).count(index) > 0;
}

const TaskMap& ClusterSpec::tasks_of(std::string_view job) const {
  for (const auto& [name, tasks] : all()) {
    if (name == job) return tasks;
  }
  raise(Code::InvalidArgument, "[ClusterSpec] there is no job '{}'; the jobs are {}{}", job,
        internal::quoted_list(jobs()), internal::did_you_mean(job, jobs()));
}

int ClusterSpec::num_tasks(std::string_view job) const {
  return static_cast<int>(tasks_of(job).size());
}

std::vector<int> ClusterSpec::task_indices(std::string_view job) const {
  std::vector<int> indices;
  for (const auto& [index, address] : tasks_of(job)) indices.push_back(index);
  return indices;
}

std::string ClusterSpec::task_address(std::string_view job, int index) const {
  const TaskMap& tasks = tasks_of(job);
  if (const auto task = tasks.find(index); task != tasks.end()) return task->second;
  raise(Code::InvalidArgument, "[ClusterSpec] job '{}' has no task {}; its tasks are {}", job,
        index, text_of(tasks));
}

std::vector<std::optional<std::string>> ClusterSpec::job_tasks(std::string_view job) const {
  const TaskMap& tasks = tasks_of(job);
  if (tasks.empty()) raise(Code::InvalidArgument, "[ClusterSpec] job '{}' has no tasks", job);
  constexpr int kMaxHoles = 1 << 20;
  if (tasks.rbegin()->first > kMaxHoles) {
    raise(Code::InvalidArgument, "[ClusterSpec] task index {} of job '{}' is too large for a list",
          tasks.rbegin()->first, job);
  }
  std::vector<std::optional<std::string>> list(static_cast<size_t>(tasks.rbegin()->first) + 1);
  for (const auto& [index, address] : tasks) list[static_cast<size_t>(index)] = address;
  return list;
}

ClusterDict ClusterSpec::as_dict() const {
  ClusterDict dict;
  for (const auto& [name, tasks] : all()) {
    if (is_dense(tasks)) {
      dict[name] = addresses_of(tasks);
    } else {
      dict[name] = tasks;
    }
  }
  return dict;
}

ClusterDef ClusterSpec::as_cluster_def() const {
  ClusterDef def;
  for (const auto& [name, tasks] : all()) {
    ClusterDef::Job& job = def.jobs.emplace_back();
    job.name = name;
    for (const auto& [index, address] : tasks) job.tasks.push_back({index, address});
  }
  std::ranges::sort(def.jobs, {}, &ClusterDef::Job::name);
  return def;
}

std::string ClusterSpec::to_string() const {
  std::vector<std::string> names = jobs();
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) {
    fmt::format_to(std::back_inserter(text), "{}'{}': {}", text.empty() ? "" : ", ", name,
                   text_of(tasks_of(name)));
  }
  return fmt::format("ClusterSpec({{{}}})", text);
}

bool operator==(const ClusterDef& a, const ClusterDef& b) {
  const auto same_task = [](const ClusterDef::Task& x, const ClusterDef::Task& y) {
    return x.index == y.index && x.address == y.address;
  };
  return std::ranges::equal(
      a.jobs, b.jobs, [&](const ClusterDef::Job& x, const ClusterDef::Job& y) {
        return x.name == y.name && std::ranges::equal(x.tasks, y.tasks, same_task);
      });
}

bool operator==(const ServerDef& a, const ServerDef& b) {
  return a.cluster == b.cluster && a.job_name == b.job_name && a.task_index == b.task_index &&
         a.protocol == b.protocol;
}

bool operator==(const ClusterSpec& a, const ClusterSpec& b) {
  return a.as_cluster_def() == b.as_cluster_def();
}

std::ostream& operator<<(std::ostream& out, const ClusterSpec& spec) {
  return out << spec.to_string();
}

ServerDef make_server_def(const ClusterSpec& cluster, const ServerTask& task) {
  ServerDef def;
  def.cluster = cluster;
  def.job_name = task.job_name ? *task.job_name : only_job(cluster);
  check_job(cluster, def.job_name);
  def.task_index = task.task_index ? *task.task_index : only_task(cluster, def.job_name);
  def.protocol = task.protocol.value_or(def.protocol);
  (void)def.address();  // throws for an index that the job does not have
  return def;
}

ServerDef make_server_def(const ServerDef& def, const ServerTask& task) {
  return make_server_def(def.cluster, {.job_name = task.job_name.value_or(def.job_name),
                                       .task_index = task.task_index.value_or(def.task_index),
                                       .protocol = task.protocol.value_or(def.protocol)});
}

void ClusterDeviceFilters::set_device_filters(std::string_view job, int index,
                                              std::vector<std::string> patterns) {
  for (const std::string& pattern : patterns) (void)DeviceName::parse(pattern);
  patterns_[{std::string(job), index}] = std::move(patterns);
}

bool ClusterDeviceFilters::sees(std::string_view job, int index, std::string_view device) const {
  const auto found = patterns_.find({std::string(job), index});
  if (found == patterns_.end()) return true;
  const DeviceName name = DeviceName::parse(device);
  if (name.job == job && name.task == index) return true;
  for (const std::string& pattern : found->second) {
    if (DeviceName::parse(pattern).matches(name)) return true;
  }
  return found->second.empty();
}

int internal::tasks_in(const ClusterSpec& cluster, std::string_view job) {
  return cluster.has_job(job) ? cluster.num_tasks(job) : 0;
}

void validate_task(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                   const std::optional<int>& task_id) {
  check_jobs(cluster);
  if (!task_type || task_type->empty()) {
    raise(Code::InvalidArgument,
          "[Cluster] the type of this task is not known; give it to the resolver (task_type, or "
          "\"task\" in TF_CONFIG)");
  }
  if (!task_id) {
    raise(Code::InvalidArgument,
          "[Cluster] the index of this '{}' task is not known; give it to the resolver (task_id, "
          "or \"index\" in TF_CONFIG)",
          *task_type);
  }
  check_task(cluster, *task_type, *task_id);
}

bool is_chief(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
              const std::optional<int>& task_id) {
  validate_task(cluster, task_type, task_id);
  if (is_chief_role(*task_type) || *task_type == "evaluator") return true;
  return *task_type == "worker" && *task_id == 0 && chief_count(cluster) == 0;
}

int worker_count(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                 const std::optional<int>& task_id) {
  validate_task(cluster, task_type, task_id);
  check_trains(*task_type);
  // An evaluator that is not in the cluster is a group of its own.
  if (*task_type == "evaluator") return std::max(1, tasks_in(cluster, "evaluator"));
  return chief_count(cluster) + tasks_in(cluster, "worker");
}

int id_in_cluster(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                  const std::optional<int>& task_id) {
  validate_task(cluster, task_type, task_id);
  check_trains(*task_type);
  if (*task_type == "evaluator") return *task_id;
  if (is_chief_role(*task_type)) return 0;
  return chief_count(cluster) + place_in_job(cluster, *task_type, *task_id);
}

}  // namespace cohort
