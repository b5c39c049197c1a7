#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/internal/braced_text.h"

// Descriptions of clusters: the tasks and where they listen. Nothing here opens a connection.

namespace cohort {

// ClusterDef is the plain form of a cluster, for sending and storing. A ClusterSpec made from it
// throws InvalidArgument if a job, or an index within a job, occurs twice.
struct ClusterDef {
  struct Task {
    int index = 0;
    std::string address = {};
  };
  struct Job {
    std::string name = {};
    std::vector<Task> tasks = {};
  };
  std::vector<Job> jobs = {};
  friend bool operator==(const ClusterDef& a, const ClusterDef& b);
};

using TaskList = std::vector<std::string>;   // addresses of tasks 0, 1, ...
using TaskMap = std::map<int, std::string>;  // task index -> address
// The tasks of each job: a list if their indices are 0..n-1, else (also without tasks) a map.
using ClusterDict = std::map<std::string, std::variant<TaskList, TaskMap>>;

// JobTasks holds the tasks of one job, in any form that ClusterSpec takes.
class JobTasks {
 public:
  JobTasks() = default;
  JobTasks(std::initializer_list<internal::BracedText> addresses);         // {"h0:1", "h1:1"}
  JobTasks(std::initializer_list<internal::IndexedAddress> sparse_tasks);  // {{2, "h2:1"}}
  JobTasks(const TaskList& addresses);                        // NOLINT: implicit on purpose
  JobTasks(TaskMap tasks);                                    // NOLINT
  JobTasks(const std::map<std::string, std::string>& tasks);  // NOLINT: indices as strings
  JobTasks(const std::variant<TaskList, TaskMap>& tasks);     // NOLINT: as in as_dict()

  TaskMap by_index() const;

 private:
  TaskMap by_index_;
};

// ClusterJob is a named job with its tasks.
struct ClusterJob {
  std::string name;
  JobTasks tasks;
};

// ClusterSpec describes a cluster: named jobs, each with tasks that have an index and an address.
//
//   ClusterSpec spec({{"ps", {"h0:2222"}}, {"worker", {{2, "h2:2222"}, {5, "h5:2222"}}}});
//   const std::string address = spec.task_address("worker", 5);
//
// Constructors throw InvalidArgument if an index is negative, or if an index or a job occurs twice.
// Functions throw InvalidArgument if a job or an index is not defined, and list the defined ones.
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

  // Job names in the order in which they were given.
  std::vector<std::string> jobs() const;
  bool has_job(std::string_view job) const;
  bool has_task(std::string_view job, int index) const;
  // How many tasks are defined, which is not the largest index plus one if indices are missing.
  int num_tasks(std::string_view job) const;
  std::vector<int> task_indices(std::string_view job) const;  // ascending
  std::string task_address(std::string_view job, int index) const;
  // Addresses by index, nullopt for an undefined one. InvalidArgument if the job has no tasks.
  std::vector<std::optional<std::string>> job_tasks(std::string_view job) const;

  ClusterDict as_dict() const;
  ClusterDef as_cluster_def() const;  // jobs by name, tasks by index
  // ClusterSpec({'ps': ['h0:2222'], 'worker': {2: 'h2:2222'}}), jobs by name.
  std::string to_string() const;

  // Whether there is a job, even one without tasks.
  explicit operator bool() const;
  // Whether both have the same jobs with the same tasks; the order of the jobs does not matter.
  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b);

 private:
  void add(std::string name, TaskMap tasks);
  const TaskMap& tasks_of(std::string_view job) const;

  struct Jobs;
  const Jobs& all() const;
  std::shared_ptr<const Jobs> jobs_;  // null: none; copies share the jobs
};

std::ostream& operator<<(std::ostream& out, const ClusterSpec& spec);

// ServerDef describes one server: a task of a cluster, and the protocol that it speaks.
struct ServerDef {
  ClusterSpec cluster = {};
  std::string job_name = {};
  int task_index = 0;
  std::string protocol = "grpc";

  std::string address() const { return cluster.task_address(job_name, task_index); }
  friend bool operator==(const ServerDef& a, const ServerDef& b);
};

// ServerTask names the task that a server is. make_server_def() completes it from the cluster.
struct ServerTask {
  std::optional<std::string> job_name = {};
  std::optional<int> task_index = {};
  std::optional<std::string> protocol = {};
};

// Returns the full description of a server. The job may be left out if the cluster has one job, and
// the index if the job has one task. Throws InvalidArgument otherwise, and if the job does not have
// the index; Internal if the cluster does not have the job.
//
//   const ServerDef def = make_server_def(cluster, {.job_name = "worker", .task_index = 0});
ServerDef make_server_def(const ClusterSpec& cluster, const ServerTask& task = {});
// Returns a copy of `def` in which the fields of `task` replace the old ones. Checks the same.
ServerDef make_server_def(const ServerDef& def, const ServerTask& task);

// ClusterDeviceFilters limits which devices a task may use. A task without filters sees all.
class ClusterDeviceFilters {
 public:
  // Lets the task see its own devices and the devices that match one of these patterns ("/job:ps").
  // Throws InvalidArgument if a pattern is not a device name.
  void set_device_filters(std::string_view job, int index, std::vector<std::string> patterns);
  // Whether the task (job, index) sees `device`, which is a full name.
  bool sees(std::string_view job, int index, std::string_view device) const;

 private:
  std::map<std::pair<std::string, int>, std::vector<std::string>> patterns_;
};

// --- Roles. Every function first checks the cluster and the task, and throws InvalidArgument
// unless job names are chief, worker, ps or evaluator (or master, the old name of chief), there are
// at most one chief and one evaluator, and the task has a type and an index that the cluster has
// (an evaluator need not be in the cluster).

void validate_task(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                   const std::optional<int>& task_id);
// Whether the task saves and logs for all: a chief, an evaluator, or worker 0 without a chief.
bool is_chief(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
              const std::optional<int>& task_id);
// How many tasks train together with this one: chiefs and workers, or evaluators for an evaluator.
// Throws InvalidArgument for a ps, which does not train.
int worker_count(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                 const std::optional<int>& task_id);
// The task's number among the tasks of worker_count(): the chief is 0, workers follow. Throws
// InvalidArgument for a ps.
int id_in_cluster(const ClusterSpec& cluster, const std::optional<std::string>& task_type,
                  const std::optional<int>& task_id);

// Credentials holds the certificate, the key and the token of a task or a client.
//
//   const Credentials credentials = read_credentials(directory);
//   const Server server(cluster, {.job_name = "worker"}, {.credentials = credentials});
//
// Certificates are text in PEM form. A certificate, its private key and an authority belong
// together: with them TLS encrypts every connection, and both sides show a certificate that the
// authority has signed. The certificate of a task proves its name by an alternative name of kind
// URI, such as "cohort:/job:worker/replica:0/task:1". The certificate of a client may have any
// name. A token is a secret of all processes of a run; without certificates it is sent unencrypted.
//
// Without certificates a server listens on the loopback interface only, unless `insecure` is set.
struct Credentials {
  std::string certificate = {};  // followed by those between it and the authority
  std::string private_key = {};  // belongs to the certificate
  std::string authority = {};    // must have signed the other side's certificate
  std::string token = {};        // empty: none is shown, none demanded
  // Allows connections without certificates from other hosts. Anyone can then connect, read and
  // change everything that is sent, and run any code: only for networks without other users.
  bool insecure = false;

  bool has_certificates() const { return !certificate.empty(); }
};

// Reads certificate.pem, private_key.pem, authority.pem and token from a directory. Either the
// token or the other three may be missing. Throws NotFound if all four are missing, and
// InvalidArgument if only some of the three are there; both errors name the files.
Credentials read_credentials(const std::string& directory);

// Returns the credentials that the variable COHORT_CREDENTIALS names: a directory for
// read_credentials(), or the word "insecure". Returns none if it is not set. Launchers pass
// credentials to the programs that they start by this variable.
Credentials credentials_from_environment();

}  // namespace cohort
