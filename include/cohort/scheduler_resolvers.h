#pragma once

#include <functional>
#include <variant>

#include "cohort/internal/durations.h"
#include "cohort/internal/ranked_resolver.h"

// Resolvers for the schedulers, launchers and clouds that start processes.
//
// Those of Slurm, hostfiles and launchers number the processes. They deal the addresses to the jobs
// of their options, ordered by name: the process with rank p is task p of that list. They throw
// FailedPrecondition if the jobs do not need as many tasks as there are.

namespace cohort {

// SlurmOptions configures a SlurmClusterResolver.
struct SlurmOptions {
  std::map<std::string, int> jobs = {};  // tasks of each job; empty: all are workers
  // The port of the first task on each host. Default: derived from SLURM_JOB_ID and SLURM_STEP_ID,
  // so that two jobs on one host do not collide; 8888 if Slurm names no job.
  std::optional<int> port_base = {};
  std::optional<int> gpus_per_node =
      {};  // default: the GPUs that CUDA_VISIBLE_DEVICES names, else all GPUs
  std::optional<int> gpus_per_task = {};  // default: an even share
  // Default: as Slurm says. A number: on every host. A map: for each host.
  std::variant<std::monostate, int, std::map<std::string, int>> tasks_per_node = {};
  bool auto_set_gpu = false;  // cluster_spec() sets CUDA_VISIBLE_DEVICES to this task's GPUs
  std::string rpc_layer = "grpc";
};

// SlurmClusterResolver describes the processes of a Slurm job step, from the variables of srun.
//
//   const SlurmClusterResolver resolver({.jobs = {{"ps", 1}, {"worker", 3}}});
//   const ClusterSpec spec = resolver.cluster_spec();
//
// Hosts are ordered by name, and the tasks on each host listen at port_base, port_base + 1, ... The
// constructor reads the variables; it throws FailedPrecondition for a missing one, InvalidArgument
// for an unreadable one. task_type() and task_id() are known only after cluster_spec().
class SlurmClusterResolver : public internal::RankedClusterResolver {
 public:
  explicit SlurmClusterResolver(const SlurmOptions& options = {});

  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;

 protected:
  std::map<std::string, int> count_accelerators(const Request& request) const override;

 private:
  int gpus_per_task_ = 0;
  std::optional<std::string> local_gpus_;  // for CUDA_VISIBLE_DEVICES
  struct Asked;
  std::shared_ptr<Asked> asked_;  // whether cluster_spec() was called; copies share it
};

// HostfileOptions configures a HostfileClusterResolver.
struct HostfileOptions {
  std::map<std::string, int> jobs = {};
  std::optional<int> rank = {};  // of this process
  int port_base = 8888;
  std::optional<std::string> rpc_layer = "grpc";
};

// HostfileClusterResolver reads a file with one host per line: "host", "host slots=4" or "host:4";
// text after # is a comment. A host has as many tasks as slots, at port_base, port_base + 1, ...,
// in the order of the file. Throws NotFound if the file does not exist, and InvalidArgument, with
// the number of the line, if a line cannot be read.
class HostfileClusterResolver : public internal::RankedClusterResolver {
 public:
  explicit HostfileClusterResolver(const std::string& path, const HostfileOptions& options = {});
};

// LauncherOptions configures the resolvers of launchers.
struct LauncherOptions {
  std::map<std::string, int> jobs = {};
  std::string hostfile = {};  // required if the processes are on several hosts
  // Default: derived from the launcher's name for the job, so that two jobs on one host do not
  // collide; 8888 if the launcher names none.
  std::optional<int> port_base = {};
  std::optional<std::string> rpc_layer = "grpc";
};

// OpenMpiClusterResolver describes the processes that mpirun of Open MPI started, from the
// variables OMPI_COMM_WORLD_RANK, ..._SIZE, ..._LOCAL_RANK and ..._LOCAL_SIZE. The variables do not
// name hosts. Processes on several hosts need the hostfile that mpirun was given, and mpirun's
// default order of ranks (by slot); otherwise the constructor throws FailedPrecondition.
class OpenMpiClusterResolver : public internal::RankedClusterResolver {
 public:
  explicit OpenMpiClusterResolver(const LauncherOptions& options = {});
};

// PmiClusterResolver describes the processes that a launcher with PMI started: mpiexec of MPICH and
// its relatives, or srun --mpi=pmi2 (PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS).
// Processes on several hosts need a hostfile, as above.
class PmiClusterResolver : public internal::RankedClusterResolver {
 public:
  explicit PmiClusterResolver(const LauncherOptions& options = {});
};

// TorchrunClusterResolver describes the processes that torchrun started (RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR). RANK and WORLD_SIZE suffice if MASTER_ADDR is this
// host or not set, because all processes are then on it. Processes on several hosts need a
// hostfile, as above.
class TorchrunClusterResolver : public internal::RankedClusterResolver {
 public:
  explicit TorchrunClusterResolver(const LauncherOptions& options = {});
};

// SageMakerOptions configures a SageMakerClusterResolver.
struct SageMakerOptions {
  int port = 2223;
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
  std::optional<std::string> environment = {};
};

// SageMakerClusterResolver describes the hosts of a SageMaker training job (SM_HOSTS,
// SM_CURRENT_HOST), sorted, as workers. The cluster is empty if this host is not one of them.
// Throws InvalidArgument if a variable is missing. master() is "" for a cluster of one host.
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

// PodAddress says at which address of its pod a task listens.
enum class PodAddress { Host, Pod };

// KubernetesOptions configures a KubernetesClusterResolver.
struct KubernetesOptions {
  // For each job the label selectors of its pods.
  std::map<std::string, std::vector<std::string>> job_to_label_mapping = {
      {"worker", {"job-name=tensorflow"}}};
  int tf_server_port = 8470;
  std::string rpc_layer = "grpc";
  PodAddress address = PodAddress::Host;
  // Returns a PodList as JSON for a label selector; replaces a request with the fields below.
  std::function<std::string(const std::string& label_selector)> list_pods = {};
  // "https://host:port"; empty: from KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
  std::string api_server = {};
  // The directory with the files token, ca.crt and namespace.
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::chrono::milliseconds timeout{10'000};  // of each request
};

// KubernetesClusterResolver finds the pods that carry given labels, sorted by name for each
// selector. cluster_spec() throws FailedPrecondition if a pod is not in phase Running. The task of
// this process is not known until it is set.
class KubernetesClusterResolver : public ClusterResolver {
 public:
  explicit KubernetesClusterResolver(KubernetesOptions options = {});
  ClusterSpec cluster_spec() const override;

 private:
  KubernetesOptions options_;
};

// HttpMetadataOptions says where to find the running machines in a list that a cloud's HTTP
// interface serves as JSON. The paths are JSON pointers (RFC 6901); the defaults fit Compute
// Engine's list of instances.
struct HttpMetadataOptions {
  std::string url = {};  // of the list: http or https
  std::map<std::string, std::string> headers = {};
  std::string ca_file = {};  // PEM; empty: the system's
  std::string items = "/items";
  std::string address = "/networkInterfaces/0/networkIP";  // in an item
  std::string state = "/status";                           // in an item; empty: take all items
  std::string running = "RUNNING";                         // the state of the items to take
  std::string next_page = "/nextPageToken";                // if present, the list goes on
  std::string page_parameter = "pageToken";                // sent with the next request
  int port = 8470;
  std::string task_type = "worker";
  int task_id = 0;
  std::string rpc_layer = "grpc";
  std::chrono::milliseconds timeout{10'000};  // of each request
};

// HttpMetadataClusterResolver makes one job of the running machines, sorted by address.
class HttpMetadataClusterResolver : public ClusterResolver {
 public:
  explicit HttpMetadataClusterResolver(HttpMetadataOptions options);
  ClusterSpec cluster_spec() const override;
  // Throws FailedPrecondition, because the cluster was requested as the job in the options.
  void set_task_type(std::string task_type) override;

 private:
  HttpMetadataOptions options_;
};

}  // namespace cohort
