#pragma once

#include <map>
#include <memory>

#include "cohort/cluster.h"

namespace cohort {

// ClusterResolver finds out which cluster this process belongs to, and which of its tasks it is. To
// write your own, derive from it and implement cluster_spec(); the rest has defaults.
//
//   class OneHost : public ClusterResolver {
//    public:
//     ClusterSpec cluster_spec() const override { return {{"worker", {"localhost:2222"}}}; }
//   };
//
// Any thread may call the functions that read. Setters must be called before.
class ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;

  // Returns the current cluster; every call looks again.
  virtual ClusterSpec cluster_spec() const = 0;

  // Returns where to open a session: "<rpc_layer>://<address>", or the bare address without an rpc
  // layer. The task is the given one, or else this one; "" if neither is known.
  std::string master(const std::optional<std::string>& task_type = {},
                     const std::optional<int>& task_id = {},
                     const std::optional<std::string>& rpc_layer = {}) const;
  // Returns how many accelerators of each type ("GPU") the task has.
  std::map<std::string, int> num_accelerators(const std::optional<std::string>& task_type = {},
                                              const std::optional<int>& task_id = {}) const;

  // This task; nullopt if it is not known or has no meaning.
  virtual std::optional<std::string> task_type() const { return task_type_; }
  virtual std::optional<int> task_id() const { return task_id_; }
  virtual std::string rpc_layer() const { return rpc_layer_.value_or(""); }
  virtual std::string environment() const { return environment_.value_or(""); }

  // Replace what the resolver found.
  virtual void set_task_type(std::string task_type) { task_type_ = std::move(task_type); }
  virtual void set_task_id(int task_id) { task_id_ = task_id; }
  virtual void set_rpc_layer(std::string rpc_layer) { rpc_layer_ = std::move(rpc_layer); }

 protected:
  ClusterResolver() = default;
  ClusterResolver(const ClusterResolver&) = default;
  ClusterResolver& operator=(const ClusterResolver&) = default;

  struct Request {
    std::optional<std::string> task_type;
    std::optional<int> task_id;
    std::optional<std::string> rpc_layer = {};
  };
  // Implement master() and num_accelerators(). By default the accelerators are the visible devices
  // other than CPUs; if the request names a task, only its devices.
  virtual std::string find_master(const Request& request) const;
  virtual std::map<std::string, int> count_accelerators(const Request& request) const;
  // Returns the full names of the devices that this process sees. By default these are the GPUs of
  // this machine, as devices of this task.
  virtual std::vector<std::string> visible_devices() const;

  // Completes the request with this task's type, index and rpc layer.
  Request completed(const Request& request) const;
  // Returns the address of the request's task in the form of master(). Throws InvalidArgument if
  // the request names no task, or a task that is not in the cluster.
  static std::string address_of(const ClusterSpec& cluster, const Request& request);
  // The same, except that it returns "" if the cluster has at most one task.
  static std::string address_unless_alone(const ClusterSpec& cluster, const Request& request);

  std::optional<std::string> task_type_;
  std::optional<int> task_id_;
  std::optional<std::string> rpc_layer_;
  std::optional<std::string> environment_;
};

// SimpleResolverOptions sets what a SimpleClusterResolver returns.
struct SimpleResolverOptions {
  std::string master = {};
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::string environment = {};
  std::map<std::string, int> num_accelerators = {};
  std::optional<std::string> rpc_layer = {};
};

// SimpleClusterResolver returns what it was given. master() is the address of the task if both its
// arguments name one, otherwise the given master.
//
//   const SimpleClusterResolver resolver(cluster, {.task_type = "worker", .task_id = 0});
//   const MultiWorkerMirroredStrategy workers(resolver);
class SimpleClusterResolver : public ClusterResolver {
 public:
  explicit SimpleClusterResolver(ClusterSpec cluster_spec, SimpleResolverOptions options = {});
  ClusterSpec cluster_spec() const override { return cluster_spec_; }

 protected:
  std::string find_master(const Request& request) const override;
  std::map<std::string, int> count_accelerators(const Request& request) const override;

 private:
  ClusterSpec cluster_spec_;
  std::string master_;
  std::map<std::string, int> num_accelerators_;
};

// TFConfigOptions replaces parts of TF_CONFIG.
struct TFConfigOptions {
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
  std::optional<std::string> environment = {};
};

// TFConfigClusterResolver reads the variable TF_CONFIG, for example
// {"cluster": {"worker": ["10.0.0.1:90", "10.0.0.2:90"], "ps": ["10.0.0.9:90"]},
//  "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"}
//
// If the variable is not set, the cluster is empty. The given options replace what the variable
// says. A text that cannot be read throws InvalidArgument at its first use, with the place and what
// was expected. master() is "session_master" if TF_CONFIG has it, else "" for at most one task.
class TFConfigClusterResolver : public ClusterResolver {
 public:
  explicit TFConfigClusterResolver(TFConfigOptions options = {});

  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

 protected:
  std::string find_master(const Request& request) const override;
  std::map<std::string, int> count_accelerators(const Request& request) const override;
};

// UnionResolverOptions sets what a UnionClusterResolver does not take from its first resolver.
struct UnionResolverOptions {
  std::optional<std::string> rpc_layer = {};
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
};

// UnionClusterResolver combines several clusters into one.
//
//   const SimpleClusterResolver ps({{"ps", {"h0:2222"}}}), workers({{"worker", {"h1:2222"}}});
//   const UnionClusterResolver both(ps, workers);
//
// Lists of the same job are concatenated. If a job has indices of its own in one of the clusters,
// its tasks are combined by index, and an index that occurs twice throws AlreadyExists. Options
// that are not given, and num_accelerators(), come from the first resolver.
class UnionClusterResolver : public ClusterResolver {
 public:
  using Resolvers = std::vector<std::shared_ptr<const ClusterResolver>>;
  // Throws InvalidArgument if the list is empty or has a null pointer.
  explicit UnionClusterResolver(Resolvers resolvers, UnionResolverOptions options = {});
  // Combines copies of these resolvers.
  template <std::derived_from<ClusterResolver> First, std::derived_from<ClusterResolver>... More>
  requires(
      sizeof...(More) > 0 ||
      !std::same_as<First, UnionClusterResolver>) explicit UnionClusterResolver(const First& first,
                                                                                const More&... more)
      : UnionClusterResolver(
            Resolvers{std::make_shared<First>(first), std::make_shared<More>(more)...}) {}

  ClusterSpec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<int> task_id() const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

 protected:
  std::string find_master(const Request& request) const override;
  std::map<std::string, int> count_accelerators(const Request& request) const override;

 private:
  Resolvers resolvers_;
};

// Returns a resolver that the environment variables select: TF_CONFIG if it describes a cluster,
// then the variables of the launcher that started this process (Slurm, Open MPI, PMI, torchrun),
// then those of SageMaker. Without any of them the cluster is empty. The resolver has looked up the
// cluster once, so the task is known.
//
//   const std::shared_ptr<ClusterResolver> found = resolver_from_environment();
//   const ClusterSpec spec = found->cluster_spec();
//
// If another launcher ran inside a job step of Slurm, the launcher's variables count, unless it
// started one process or gives the same place as Slurm. Throws FailedPrecondition, with the
// variables, if some are missing (WORLD_SIZE without RANK) or if two launchers disagree.
std::shared_ptr<ClusterResolver> resolver_from_environment();

}  // namespace cohort
