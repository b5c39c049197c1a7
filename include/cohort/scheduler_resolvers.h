#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cohort/cluster_resolver.h"

// Resolvers that ask the machinery which started this process: schedulers, launchers, clouds.

namespace cohort {

namespace internal {
struct LaunchedProcess;
}
struct LauncherOptions;

// Chooses by the variables that are set: TF_CONFIG if it describes a cluster, then those of the
// launcher that started this process (Slurm, Open MPI, PMI, torchrun), then those of SageMaker.
// Without any of them a resolver of the empty cluster. The cluster has been looked up once, so that
// the task is known.
//
// Where one launcher ran inside a job step of Slurm, the launcher counts. FailedPrecondition names
// the variables when some are missing (WORLD_SIZE without RANK) and when two launchers disagree.
std::shared_ptr<ClusterResolver> resolver_from_environment();

// A cluster of processes that are numbered: the list of their addresses is dealt to the jobs by
// name, and rank p is task p of the list. FailedPrecondition when the jobs do not need as many
// tasks as there are.
class RankedClusterResolver : public ClusterResolver {
 public:
  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;

 protected:
  RankedClusterResolver() = default;

  struct Ranks {
    std::vector<std::string> addresses;
    std::map<std::string, int> jobs;  // tasks of each; empty = all are workers
    std::optional<int> rank;          // of this process, where it has one
    const char* operation;            // for messages: "Slurm"
  };
  void deal(Ranks ranks);
  void deal(const internal::LaunchedProcess& process, const LauncherOptions& options);

 private:
  std::vector<ClusterJob> jobs_;
  std::optional<std::string> own_type_;
  std::optional<int> own_id_;
};

struct SlurmOptions {
  std::map<std::string, int> jobs = {};  // tasks of each job; empty = all are workers
  // Default: derived from SLURM_JOB_ID and SLURM_STEP_ID, so that two jobs on one host do not meet;
  // 8888 where Slurm names no job.
  std::optional<int> port_base = {};
  std::optional<int> gpus_per_node =
      {};  // default: those that CUDA_VISIBLE_DEVICES names, else all
  std::optional<int> gpus_per_task = {};  // default: an even share
  // Nothing: as Slurm says. A number: on every host. A map: on each host.
  std::variant<std::monostate, int, std::map<std::string, int>> tasks_per_node = {};
  bool auto_set_gpu = false;  // let cluster_spec() set CUDA_VISIBLE_DEVICES to this task's GPUs
  std::string rpc_layer = "grpc";
};

// The processes of a Slurm job step, from the variables that srun sets. On each host, by name, the
// tasks listen at port_base, port_base + 1, ... The variables are read by the constructor:
// FailedPrecondition for a missing one, InvalidArgument for one that cannot be read.
//
// task_type() and task_id() are known only after cluster_spec() was called.
class SlurmClusterResolver : public RankedClusterResolver {
 public:
  explicit SlurmClusterResolver(const SlurmOptions& options = {});

  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;

 protected:
  std::map<std::string, int> count_accelerators(const Request& request) const override;

 private:
  int gpus_per_task_ = 0;
  std::optional<std::string> own_gpus_;  // for CUDA_VISIBLE_DEVICES
  std::shared_ptr<std::atomic<bool>> asked_ = std::make_shared<std::atomic<bool>>(false);
};

struct HostfileOptions {
  std::map<std::string, int> jobs = {};
  std::optional<int> rank = {};  // of this process
  int port_base = 8888;
  std::optional<std::string> rpc_layer = "grpc";
};

// A file of hosts, one per line: "host", "host slots=4" or "host:4"; text after # is a comment. A
// host has as many tasks as slots, at port_base, port_base + 1, ..., in the order of the file.
// Throws NotFound when the file does not exist, and InvalidArgument with the number of the line
// that cannot be read.
class HostfileClusterResolver : public RankedClusterResolver {
 public:
  explicit HostfileClusterResolver(const std::string& path, const HostfileOptions& options = {});
};

struct LauncherOptions {
  std::map<std::string, int> jobs = {};
  std::string hostfile = {};  // needed when the processes are on several hosts
  // Default: derived from the launcher's name for the job, so that two jobs on one host do not
  // meet; 8888 where the launcher names none.
  std::optional<int> port_base = {};
  std::optional<std::string> rpc_layer = "grpc";
};

// Processes that mpirun of Open MPI started (OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_RANK,
// ..._LOCAL_SIZE). The variables do not name the hosts: processes on several need the hostfile that
// mpirun was given, and its ordinary order of ranks (by slot). FailedPrecondition says so.
class OpenMpiClusterResolver : public RankedClusterResolver {
 public:
  explicit OpenMpiClusterResolver(const LauncherOptions& options = {});
};

// Processes that a launcher with PMI started: mpiexec of MPICH and its relatives, Slurm's
// srun --mpi=pmi2 (PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS). On several hosts a
// hostfile is needed, as above.
class PmiClusterResolver : public RankedClusterResolver {
 public:
  explicit PmiClusterResolver(const LauncherOptions& options = {});
};

// Processes that torchrun started (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR).
// RANK and WORLD_SIZE suffice where MASTER_ADDR is this host or not set: all processes are on this
// host then. On several hosts a hostfile is needed, as above.
class TorchrunClusterResolver : public RankedClusterResolver {
 public:
  explicit TorchrunClusterResolver(const LauncherOptions& options = {});
};

struct SageMakerOptions {
  int port = 2223;
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
  std::optional<std::string> environment = {};
};

// The hosts of a SageMaker training job (SM_HOSTS, SM_CURRENT_HOST), sorted, as workers; an empty
// cluster when this host is not one of them. InvalidArgument when a variable is missing.
// master() is "" for a cluster of one host.
class SageMakerClusterResolver : public ClusterResolver {
 public:
  explicit SageMakerClusterResolver(const SageMakerOptions& options = {});

  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;

 protected:
  std::string find_master(const Request& request) const override;
  std::map<std::string, int> count_accelerators(const Request& request) const override;

 private:
  int port_;
};

// Which address of a pod its task listens at.
enum class PodAddress { Host, Pod };

struct KubernetesOptions {
  // Per job the label selectors of its pods.
  std::map<std::string, std::vector<std::string>> job_to_label_mapping = {
      {"worker", {"job-name=tensorflow"}}};
  int tf_server_port = 8470;
  std::string rpc_layer = "grpc";
  PodAddress address = PodAddress::Host;
  // Returns the API's answer (a PodList as JSON) for a label selector; replaces all below.
  std::function<std::string(const std::string& label_selector)> list_pods = {};
  // "https://host:port"; empty: as the variables KUBERNETES_SERVICE_HOST and _PORT say.
  std::string api_server = {};
  // Holds token, ca.crt and namespace.
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::chrono::milliseconds timeout{10'000};  // of each request
};

// The pods that carry given labels, per selector sorted by name. FailedPrecondition when one is not
// in phase Running. This task is not known until it is set.
class KubernetesClusterResolver : public ClusterResolver {
 public:
  explicit KubernetesClusterResolver(KubernetesOptions options = {});
  ClusterSpec cluster_spec() const override;

 private:
  std::vector<std::string> addresses(const std::string& label_selector) const;

  KubernetesOptions options_;
};

// Where to find the running machines in a list that a cloud's HTTP interface serves as JSON. The
// paths are JSON pointers (RFC 6901) and by default those of Compute Engine's list of instances.
struct HttpMetadataOptions {
  std::string url = {};  // of the list: http or https
  std::map<std::string, std::string> headers = {};
  std::string ca_file = {};  // PEM; empty = the system's
  std::string items = "/items";
  std::string address = "/networkInterfaces/0/networkIP";  // in an item
  std::string state = "/status";                           // in an item; empty = take all
  std::string running = "RUNNING";                         // the state of those to take
  std::string next_page = "/nextPageToken";                // the list goes on when it is there,
  std::string page_parameter = "pageToken";                // asked for with this query parameter
  int port = 8470;
  std::string task_type = "worker";
  int task_id = 0;
  std::string rpc_layer = "grpc";
  std::chrono::milliseconds timeout{10'000};  // of each request
};

// The running machines of such a list as one job, sorted by address.
class HttpMetadataClusterResolver : public ClusterResolver {
 public:
  explicit HttpMetadataClusterResolver(HttpMetadataOptions options);
  ClusterSpec cluster_spec() const override;
  // The job is what the cluster was asked for: FailedPrecondition.
  void set_task_type(std::string task_type) override;

 private:
  HttpMetadataOptions options_;
};

}  // namespace cohort
