#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cohort/cluster.h"

namespace cohort {

// Finds out which cluster this process belongs to and which task of it this is. A resolver of one's
// own derives from this and says cluster_spec(); everything else has a meaning by then.
//
// Reading may happen on any thread; setting needs to happen before.
class ClusterResolver {
 public:
  virtual ~ClusterResolver() = default;

  // The cluster as it is now: every call looks again.
  virtual ClusterSpec cluster_spec() const = 0;

  // Where to open a session: "<rpc_layer>://<address>", or the bare address without an rpc layer.
  // The task is the given one, or this one; "" when neither is known.
  std::string master(const std::optional<std::string>& task_type = {},
                     const std::optional<int>& task_id = {},
                     const std::optional<std::string>& rpc_layer = {}) const;
  // How many accelerators of each type ("GPU") the task has.
  std::map<std::string, int> num_accelerators(const std::optional<std::string>& task_type = {},
                                              const std::optional<int>& task_id = {}) const;

  // This task; nothing where that has no meaning or is not known.
  virtual std::optional<std::string> task_type() const { return task_type_; }
  virtual std::optional<int> task_id() const { return task_id_; }
  virtual std::string rpc_layer() const { return rpc_layer_.value_or(""); }
  virtual std::string environment() const { return environment_.value_or(""); }

  // Sets what the resolver then says instead of what it found.
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
  // What master() and num_accelerators() do. By default the accelerators are the visible devices
  // that are not CPUs; when the request names a task, those of that task.
  virtual std::string find_master(const Request& request) const;
  virtual std::map<std::string, int> count_accelerators(const Request& request) const;
  // Full names of the devices that this process sees. By default the GPUs of this machine, as
  // devices of this task.
  virtual std::vector<std::string> visible_devices() const;

  // The given task with its missing parts from this one; the given rpc layer, or this one's.
  Request completed(const Request& request) const;
  // The address of the request's task in the form of master(). InvalidArgument when the request
  // does not name one, or one that is not in the cluster.
  static std::string address_of(const ClusterSpec& cluster, const Request& request);
  // The same, except that a cluster of at most one task has the master "".
  static std::string address_unless_alone(const ClusterSpec& cluster, const Request& request);

  std::optional<std::string> task_type_;
  std::optional<int> task_id_;
  std::optional<std::string> rpc_layer_;
  std::optional<std::string> environment_;
};

struct SimpleResolverOptions {
  std::string master = {};
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::string environment = {};
  std::map<std::string, int> num_accelerators = {};
  std::optional<std::string> rpc_layer = {};
};

// Says what it was given. master() is the address of the task that the arguments name, both of
// them, and otherwise the master that was given.
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

struct TFConfigOptions {
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
  std::optional<std::string> rpc_layer = {};
  std::optional<std::string> environment = {};
};

// Reads the variable TF_CONFIG, for example
//   {"cluster": {"worker": ["10.0.0.1:90", "10.0.0.2:90"], "ps": ["10.0.0.9:90"]},
//    "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"}
// A missing variable is an empty cluster. What is given here replaces what stands there. Text that
// cannot be meant is InvalidArgument when it is first used, with the place and what was expected.
//
// master() is "session_master" as it stands there; else "" in a cluster of at most one task.
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

struct UnionResolverOptions {
  std::optional<std::string> rpc_layer = {};
  std::optional<std::string> task_type = {};
  std::optional<int> task_id = {};
};

// Several clusters as one. Lists of one job are put one after the other; when one of them has
// indices of its own they are united by index, and an index that comes twice is AlreadyExists. What
// is not given here, and num_accelerators, is the first resolver's.
class UnionClusterResolver : public ClusterResolver {
 public:
  using Resolvers = std::vector<std::shared_ptr<const ClusterResolver>>;
  // InvalidArgument without resolvers or with a null one.
  explicit UnionClusterResolver(Resolvers resolvers, UnionResolverOptions options = {});
  // Of copies of these.
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

}  // namespace cohort
