#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// Which tasks there are and where they listen. Data only: nothing here opens a connection.

namespace cohort {

// The plain form of a cluster, for sending and storing. A ClusterSpec made from one that lists a
// job, or an index of a job, twice throws InvalidArgument.
struct ClusterDef {
  struct Task {
    int index = 0;
    std::string address = {};
    friend bool operator==(const Task&, const Task&) = default;
  };
  struct Job {
    std::string name = {};
    std::vector<Task> tasks = {};
    friend bool operator==(const Job&, const Job&) = default;
  };
  std::vector<Job> jobs = {};
  friend bool operator==(const ClusterDef&, const ClusterDef&) = default;
};

using TaskList = std::vector<std::string>;   // addresses of tasks 0, 1, ...
using TaskMap = std::map<int, std::string>;  // task index -> address
// A job's tasks as a list when their indices are exactly 0..n-1, else (also without any) as a map.
using ClusterDict = std::map<std::string, std::variant<TaskList, TaskMap>>;

namespace internal {

// A text in a braced list. Not std::string, of which {"a", "b"} makes one that runs from a to b.
struct BracedText {
  template <std::convertible_to<std::string_view> Text>
  BracedText(const Text& from) : text(std::string_view(from)) {}  // NOLINT: implicit on purpose
  std::string text;
};

struct IndexedAddress {
  IndexedAddress(int at, BracedText where) : index(at), address(std::move(where.text)) {}
  // {"2", "h2:1"}: throws InvalidArgument when the index is not a number.
  IndexedAddress(const BracedText& at, BracedText where);
  int index;
  std::string address;
};

}  // namespace internal

// The tasks of one job, in any of the forms that ClusterSpec takes.
class JobTasks {
 public:
  JobTasks() = default;
  JobTasks(std::initializer_list<internal::BracedText> addresses);         // {"h0:1", "h1:1"}
  JobTasks(std::initializer_list<internal::IndexedAddress> sparse_tasks);  // {{2, "h2:1"}}
  JobTasks(const TaskList& addresses);                        // NOLINT: implicit on purpose
  JobTasks(TaskMap tasks) : by_index_(std::move(tasks)) {}    // NOLINT
  JobTasks(const std::map<std::string, std::string>& tasks);  // NOLINT: numeric texts as indices
  JobTasks(const std::variant<TaskList, TaskMap>& tasks);     // NOLINT: as as_dict() gives them

  TaskMap by_index() const { return by_index_; }

 private:
  TaskMap by_index_;
};

struct ClusterJob {
  std::string name;
  JobTasks tasks;
};

// A cluster: named jobs, each with tasks that have an index and an address. A value.
//
//   ClusterSpec spec({{"ps", {"h0:2222"}}, {"worker", {{2, "h2:2222"}, {5, "h5:2222"}}}});
//
// A negative index, an index or a job that comes twice is InvalidArgument; so is asking for a job
// or an index that is not defined, and the message lists those that are.
class ClusterSpec {
 public:
  ClusterSpec() = default;
  ClusterSpec(std::initializer_list<ClusterJob> jobs);       // NOLINT: implicit on purpose
  ClusterSpec(const std::vector<ClusterJob>& jobs);          // NOLINT
  ClusterSpec(const std::map<std::string, JobTasks>& jobs);  // NOLINT
  ClusterSpec(const std::map<std::string, TaskList>& jobs);  // NOLINT
  ClusterSpec(const std::map<std::string, TaskMap>& jobs);   // NOLINT
  ClusterSpec(const ClusterDict& jobs);                      // NOLINT
  ClusterSpec(const ClusterDef& def);                        // NOLINT

  // Job names in the order they were given.
  std::vector<std::string> jobs() const;
  bool has_job(std::string_view job) const;
  bool has_task(std::string_view job, int index) const;
  // How many tasks are defined, which is not the largest index plus one when some are missing.
  int num_tasks(std::string_view job) const;
  std::vector<int> task_indices(std::string_view job) const;  // ascending
  std::string task_address(std::string_view job, int index) const;
  // By index, with nullopt where none is defined. InvalidArgument for a job without tasks.
  std::vector<std::optional<std::string>> job_tasks(std::string_view job) const;

  ClusterDict as_dict() const;
  ClusterDef as_cluster_def() const;  // jobs by name, tasks by index
  // ClusterSpec({'ps': ['h0:2222'], 'worker': {2: 'h2:2222'}}), jobs by name.
  std::string to_string() const;

  // False without jobs; a job without tasks is a job.
  explicit operator bool() const { return !jobs_.empty(); }
  // The same jobs with the same tasks; the order of the jobs does not matter.
  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b);

 private:
  void add(std::string name, TaskMap tasks);
  const TaskMap& tasks_of(std::string_view job) const;

  std::vector<std::pair<std::string, TaskMap>> jobs_;
};

std::ostream& operator<<(std::ostream& out, const ClusterSpec& spec);

// What one server is: a task of a cluster, and how it is spoken to.
struct ServerDef {
  ClusterSpec cluster = {};
  std::string job_name = {};
  int task_index = 0;
  std::string protocol = "grpc";

  std::string address() const { return cluster.task_address(job_name, task_index); }
  friend bool operator==(const ServerDef&, const ServerDef&) = default;
};

// What a caller says about a server; what is left out follows from the cluster.
struct ServerTask {
  std::optional<std::string> job_name = {};
  std::optional<int> task_index = {};
  std::optional<std::string> protocol = {};
};

// The job may be left out when there is one, the index when that job has one task, and then it is
// the index of that task. Otherwise InvalidArgument, as for an index that the job does not have. A
// job that the cluster does not have is Internal.
ServerDef make_server_def(const ClusterSpec& cluster, const ServerTask& task = {});
// A copy in which what `task` gives replaces what was there. Checks the same.
ServerDef make_server_def(const ServerDef& def, const ServerTask& task);

// Which devices of a cluster a task may use. A task without filters sees all of them.
class ClusterDeviceFilters {
 public:
  // The task sees its own devices and those that match one of these patterns ("/job:ps").
  // Throws InvalidArgument for a pattern that is not a device name.
  void set_device_filters(std::string_view job, int index, std::vector<std::string> patterns);
  // Whether the task (job, index) sees `device`, a full name.
  bool sees(std::string_view job, int index, std::string_view device) const;

 private:
  std::map<std::pair<std::string, int>, std::vector<std::string>> patterns_;
};

// --- Roles. Every function first checks the cluster and the task: job names are chief, worker, ps
// or evaluator (or master, the old name of chief), at most one chief and one evaluator, a task that
// is given by type and index and that the cluster has (an evaluator need not be in it). What does
// not hold is InvalidArgument.

void validate_task(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                   const std::optional<int>& task_id);
// Whether the task saves and logs for all: a chief, an evaluator, or worker 0 in a cluster without
// a chief.
bool is_chief(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
              const std::optional<int>& task_id);
// How many tasks train together with this one: chiefs and workers, or evaluators for an evaluator.
// InvalidArgument for a ps, which does not train.
int worker_count(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                 const std::optional<int>& task_id);
// The task's place among those: the chief is 0, workers follow. InvalidArgument for a ps.
int id_in_cluster(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                  const std::optional<int>& task_id);

}  // namespace cohort
