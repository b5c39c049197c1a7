#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cohort/cross_device_ops.h"
#include "cohort/data.h"
#include "cohort/distributed_dataset.h"
#include "cohort/guards.h"
#include "cohort/site.h"
#include "cohort/values.h"

// Strategies: where the replicas of a training step run and how their values are combined.

namespace cohort {

class ClusterResolver;
class Strategy;
class StrategyExtended;
class ReplicaContext;

namespace internal {
class ReplicaRendezvous;  // where the replicas of one run meet
class ReplicaThreadPool;  // the threads of a strategy's replicas
class RunObserver;
class ThreadAllReduce;  // reductions between these threads
struct ReduceLeaf;
struct ScopeState;
void observe_runs(const Strategy& strategy, const std::shared_ptr<RunObserver>& observer);
}  // namespace internal

// --- Contexts. Every thread is in one of two: in a replica context (inside the function given to
// `run`, or outside every scope), or in a cross-replica context (inside a strategy's scope or a
// merge function). A new thread begins outside every scope.

// The current strategy; outside every scope the default strategy, which behaves as ordinary code.
Strategy& get_strategy();
bool has_strategy();
bool in_cross_replica_context();
// The context of the replica that this code runs in; null in a cross-replica context.
ReplicaContext* get_replica_context();
// Makes `strategy` current on this thread until the next call; nullptr ends that. Throws
// FailedPrecondition inside another strategy's scope.
void set_strategy(Strategy* strategy);

// While it is open, this thread is in the strategy's cross-replica context and variables made are
// the strategy's. Opening throws FailedPrecondition inside another strategy, or inside a
// replica.
class [[nodiscard]] StrategyScope {
 public:
  explicit StrategyScope(Strategy& strategy);
  ~StrategyScope();  // closes; what close() would throw is logged
  StrategyScope(const StrategyScope&) = delete;
  StrategyScope& operator=(const StrategyScope&) = delete;

  // Opens once more; scopes of one strategy nest.
  void enter();
  // Throws FailedPrecondition when a device, variable-creator or name scope that was opened inside
  // is still open, or one from outside is not any more; the scope then stays open.
  void close();

 private:
  Strategy& strategy_;
  int nested_ = 0;                               // times entered while the strategy was current
  std::unique_ptr<internal::ScopeState> state_;  // null unless this scope made it current
};

// Which replica a value is for.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

// What code in a replica knows and can ask for. Valid inside the `run` that made it, on its thread.
class ReplicaContext {
 public:
  ReplicaContext(Strategy& strategy, int replica_id_in_sync_group, size_t local_replica,
                 internal::ReplicaRendezvous* rendezvous);

  Strategy& strategy() const { return strategy_; }
  int replica_id_in_sync_group() const { return id_; }
  int num_replicas_in_sync() const;
  size_t local_replica() const { return local_; }
  // The device of this replica.
  std::vector<std::string> devices() const;

  // Waits for all replicas, then calls replica 0's `merge(strategy, arguments...)` once, in
  // cross-replica context. An argument of type T arrives as PerReplica<T>, which converts to T when
  // it is the same object on all replicas; a structure arrives with such leaves, and a literal as
  // what it decays to. A variable arrives as itself; a merge that takes a PerReplica<Variable> gets
  // that, and the replicas may give different ones. Each replica gets its component of the result.
  // Throws what `merge` throws, in all replicas; FailedPrecondition, naming the replicas, when some
  // never come.
  template <typename Merge, typename... Args>
  auto merge_call(const Merge& merge, const Args&... args);

  // Every replica gets `op` over all replicas' values, leaf by leaf of a structure. All must call
  // it, in the same order and with equal shapes; if not, FailedPrecondition (InvalidArgument for
  // shapes) names the replicas and both calls. Differentiable. A variable contributes the own copy.
  // Of gradients, Sum and Mean take one that is undefined in some replicas as zeros; the result is
  // undefined where all replicas' are. In a function that each replica traces, and between the
  // functions of several workers, all must have the same ones (FailedPrecondition).
  template <typename T>
  auto all_reduce(ReduceOp op, const T& value, const CommunicationOptions& options = {},
                  Site site = Site::here());
  // The same by name: "sum", in any letter case. Throws InvalidArgument for an unknown one.
  template <typename T>
  auto all_reduce(std::string_view op, const T& value, const CommunicationOptions& options = {},
                  Site site = Site::here()) {
    return all_reduce(parse_reduce_op(op), value, options, site);
  }
  // Every replica gets all values, one after the other along `axis`. Differentiable.
  template <typename T>
  auto all_gather(const T& value, int axis, const CommunicationOptions& options = {},
                  Site site = Site::here());

  std::string to_string() const;

  // For strategies: where the replicas of this run meet; null when there is one replica.
  internal::ReplicaRendezvous* rendezvous() const { return rendezvous_; }

 private:
  void check_current(std::string_view what) const;
  // merge_call() after arrays and functions among the arguments have decayed.
  template <typename Merge, typename... Args>
  auto merge_decayed(const Merge& merge, const Args&... args);
  // `body` runs once, on all replicas' `own`s, in the order of the replicas.
  void merge(const std::type_info& kind, void* own,
             const std::function<void(std::span<void* const>)>& body);
  // `may_lack`: the values' types let some be undefined, here or on other workers. `structure`: of
  // what the values are the leaves, for the comparison of the calls.
  std::vector<Gradient> all_reduce_values(ReduceOp op, const std::vector<Gradient>& values,
                                          bool may_lack, const CommunicationOptions& options,
                                          const std::string& structure, Site site);
  Tensor all_gather_value(const Gradient& value, int axis, const CommunicationOptions& options,
                          const std::string& structure, Site site);

  Strategy& strategy_;
  int id_;
  size_t local_;
  internal::ReplicaRendezvous* rendezvous_;
};
std::ostream& operator<<(std::ostream& out, const ReplicaContext& context);

// Axes to reduce along besides the replicas: none, one, or several.
struct ReduceAxes {
  ReduceAxes() = default;
  ReduceAxes(int axis) : axes{axis} {}
  ReduceAxes(std::initializer_list<int> list) : axes(list.begin(), list.end()) {}
  ReduceAxes(const std::vector<int>& list) : axes(list.begin(), list.end()) {}
  ReduceAxes(std::nullopt_t) {}
  std::vector<int64_t> axes;
};

// What a strategy is like. The defaults fit a strategy with one copy of each variable per replica,
// all in this process.
struct StrategyTraits {
  // Whether this process writes checkpoints and summaries. Of several workers the chief does.
  bool is_chief = true;
  // Whether each process runs its own copy of the program.
  bool between_graph = false;
  // Whether it has one replica by nature, so that values are never distributed.
  bool is_single = false;
  // Whether its scope also opens the first of worker_devices() as the current device.
  bool opens_device = false;
  // Whether a dataset's elements go to worker_devices(). If not, they stay where they are made.
  bool moves_input = true;
  // Whether a distributed dataset gives the replicas that get nothing of the last batch an empty
  // part of it.
  bool fills_partial_steps = true;
  // Whether InputReplicationMode::PerReplica is possible.
  bool supports_replica_pipelines = false;
  // How many replicas, of this and of other processes, share the cores of this machine; 0 = those
  // of this process.
  size_t replicas_on_host = 0;
  // How the tasks of its cluster were found; null without a cluster.
  const ClusterResolver* cluster_resolver = nullptr;
  // What watches over optimizers' updates of its variables.
  GuardOptions guards = {};
  // What holds for communication between replicas where a call does not say.
  CommunicationOptions communication = {};
};

// What one replica gives to be reduced with the values of all others.
struct ReplicaReduction {
  ReduceOp op = ReduceOp::Sum;
  const std::vector<Gradient>& values;
  // Whether some may be undefined, or rows, in some replicas and not in others: gradients.
  bool may_lack = false;
  CommunicationOptions options = {};
};

// What a strategy is made of: derive to write one's own. Everything that Strategy, variables,
// optimizers and datasets do goes through these functions. Those with a body here serve a strategy
// whose replicas are threads of this process, one for each of worker_devices(), and which keeps a
// copy of each variable on every one of parameter_devices(). What only some strategies can do are
// interfaces of their own, below, from which such a strategy derives as well.
//
// Unless said otherwise they are for cross-replica context (or outside every scope) and throw
// FailedPrecondition elsewhere.
class StrategyExtended {
 public:
  StrategyExtended();
  virtual ~StrategyExtended();
  StrategyExtended(const StrategyExtended&) = delete;
  StrategyExtended& operator=(const StrategyExtended&) = delete;

  // --- What it is
  virtual std::string name() const = 0;  // "MirroredStrategy"
  virtual std::vector<std::string> worker_devices() const = 0;
  virtual std::vector<std::string> parameter_devices() const { return worker_devices(); }
  virtual StrategyTraits traits() const { return {}; }

  // --- What it does
  // Makes a variable; `next` makes an ordinary one.
  virtual Variable create_variable(const NextCreator& next, const VariableRequest& request);
  // Calls `body` once per local replica, in its context and on its device, all at the same time.
  virtual void call_for_each_replica(const std::function<void(ReplicaContext&)>& body);
  // One result for each request.
  virtual std::vector<DistributedValue> batch_reduce_to(ReduceOp op,
                                                        std::span<const ReduceRequest> requests,
                                                        const CommunicationOptions& options = {});
  virtual DistributedValue broadcast_to(const Tensor& value, const Destinations& destinations);
  virtual DistributedValue gather_to(const DistributedValue& value,
                                     const Destinations& destinations, int axis,
                                     const CommunicationOptions& options = {});
  // Calls `change(copy, k)` for each copy of `variable`, on its device and in update context k.
  using Change = std::function<Tensor(Variable copy, size_t index)>;
  virtual DistributedValue update_copies(const Variable& variable, const Change& change);
  // In a replica: what every replica gets of all replicas' values.
  virtual std::vector<Gradient> replica_all_reduce(ReplicaContext& context,
                                                   const ReplicaReduction& own);

  // --- Made of the above
  bool should_checkpoint() const { return traits().is_chief; }
  bool should_save_summary() const { return traits().is_chief; }
  bool should_init() const { return true; }
  bool between_graph() const { return traits().between_graph; }
  bool require_static_shapes() const { return false; }
  const ClusterResolver* cluster_resolver() const { return traits().cluster_resolver; }
  GuardOptions guards() const { return traits().guards; }
  // A device to open together with the scope; "" = none.
  std::string default_device() const;
  // Where the local replicas' elements go; "" = they stay where they are made.
  std::vector<std::string> input_devices() const;
  // Replicas of this process, of the whole group, and those that share the cores of this machine;
  // known from the time when it is part of a Strategy.
  size_t num_local_replicas() const { return local_replicas_; }
  int num_replicas_in_sync() const { return replicas_in_sync_; }
  size_t replicas_on_host() const;
  // The id in the whole group of a local replica.
  int replica_id(size_t local_replica) const {
    return first_replica_id_ + static_cast<int>(local_replica);
  }
  // As CrossWorkerInput has them; for a strategy without it, what one worker has.
  InputContext input_context() const;
  InputTotals sum_over_workers(const InputTotals& here);
  std::vector<std::string> gather_from_workers(const std::string& here, const std::string& what);
  std::vector<int64_t> sum_numbers(const std::vector<int64_t>& here, const std::string& what);
  Tensor from_first_worker(const Tensor& value);
  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options = {});
  // update(v, [](Variable copy, Tensor delta) { copy.assign_sub(delta); }, deltas): arguments that
  // are distributed are taken apart, copy by copy. Also in replica context, where it is a merge.
  template <typename F, typename... Args>
  DistributedValue update(const Variable& variable, const F& change, const Args&... args);
  // The same for things that are not variables: `change(arguments...)` once per destination.
  template <typename F, typename... Args>
  DistributedValue update_non_slot(const Destinations& where, const F& change, const Args&... args);
  std::vector<std::string> non_slot_devices(const std::vector<Variable>& variables) const;
  // The value across replicas, whatever the context.
  Tensor read_var(const Variable& variable);
  // The distributed variable that `copy` is a copy of, or `copy` itself.
  Variable value_container(const Variable& copy) const;
  // While it lives, variables are made where the copies of `variable` are.
  VariableCreatorScope colocate_vars_with(const Variable& variable);
  bool variable_created_in_scope(const Variable& variable) const;

  // The strategy that is made of this. Throws FailedPrecondition before there is one.
  Strategy& strategy() const;

 protected:
  // The full names of devices of this process, given in any form; all GPUs, or the CPU, when none
  // is given. CPU devices come into being when they are named. Throws InvalidArgument for a device
  // that does not exist, or that is given twice.
  static std::vector<std::string> resolve_devices(std::string_view strategy,
                                                  const std::vector<std::string>& names);
  // What reduces, copies and gathers between the devices: by default ReductionToOneDevice. Replicas
  // of one process are quicker with DirectAllReduce: they reduce without batch_reduce_to(), so a
  // strategy that overrides batch_reduce_to() and uses it overrides replica_all_reduce() as well.
  virtual CrossDeviceOps& cross_device_ops() const;

 private:
  friend class Strategy;
  friend void internal::observe_runs(const Strategy& strategy,
                                     const std::shared_ptr<internal::RunObserver>& observer);
  // Becomes part of the strategy.
  void attach(Strategy& strategy);
  // The context of this strategy's replica that the thread is in; null outside replicas.
  ReplicaContext* own_replica() const;
  // Calls `change(k)` for each destination, on its device and in update context k.
  DistributedValue update_places(const Destinations& where,
                                 const std::function<Tensor(size_t)>& change);
  Strategy* strategy_ = nullptr;
  size_t local_replicas_ = 0;
  int replicas_in_sync_ = 0;
  int first_replica_id_ = 0;
  // The threads, kept from run to run.
  std::unique_ptr<internal::ReplicaThreadPool> replica_threads_;
  // The quick form of DirectAllReduce, for replicas that meet; null for other algorithms.
  std::unique_ptr<internal::ThreadAllReduce> thread_all_reduce_;
};

// A strategy whose replicas are in several processes: what these workers tell each other, above
// all to feed all replicas alike. Those that exchange something are called by all workers together,
// in the same order.
class CrossWorkerInput {
 public:
  virtual ~CrossWorkerInput() = default;
  // How many workers there are, which one this is, and the replicas of all.
  virtual InputContext input_context() const = 0;
  // The sum over all workers, once per step.
  virtual InputTotals sum_over_workers(const InputTotals& here) { return here; }
  // What every worker gives, in the order of the workers, all with the same `what`: what the texts
  // are for. Workers can compare it, so that two exchanges do not mix. Needed when a worker has no
  // data from the beginning and only others can tell it what elements look like; without it there
  // is an error, on all workers.
  virtual std::vector<std::string> gather_from_workers(const std::string& here,
                                                       const std::string& what);
  // The sums over all workers, all with the same `what`.
  virtual std::vector<int64_t> sum_numbers(const std::vector<int64_t>& here,
                                           const std::string& what);
  // The value that the worker with replica 0 gives, on all workers.
  virtual Tensor from_first_worker(const Tensor& value) { return value; }
};

// A strategy that has a better way for the gradients of an optimizer than replica_all_reduce().
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  // In a replica: the sums over all replicas of the gradients of `variables`, which an optimizer
  // uses at once. They may lie in memory that the next call writes.
  virtual Gradients sum_gradients(ReplicaContext& context, const Gradients& own,
                                  const std::vector<Variable>& variables) = 0;
};

// A strategy that Strategy::deep_copy() can copy.
class CloneableStrategy {
 public:
  virtual ~CloneableStrategy() = default;
  virtual std::unique_ptr<StrategyExtended> clone() const = 0;
};

// Runs a training step on replicas. All methods that compute are for cross-replica context or
// outside every scope; inside a replica they throw FailedPrecondition. A strategy must outlive the
// variables and datasets that are made with it.
class Strategy {
 public:
  explicit Strategy(std::unique_ptr<StrategyExtended> extended);
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  // Another strategy like this one. Throws FailedPrecondition for the default strategy,
  // Unimplemented for a strategy that does not derive from CloneableStrategy.
  std::unique_ptr<Strategy> deep_copy() const;

  StrategyScope scope() { return StrategyScope(*this); }
  // A number that no other strategy of this process has.
  uint64_t id() const { return id_; }
  StrategyExtended& extended() const { return *extended_; }
  int num_replicas_in_sync() const { return extended_->num_replicas_in_sync(); }
  const ClusterResolver* cluster_resolver() const { return extended_->cluster_resolver(); }

  // Calls `f` once per replica, all at the same time, and returns what each returned. Distributed
  // arguments are replaced by the replica's component, wherever they are in vectors, tuples and
  // maps; variables and everything else pass as they are. A dataset's element is spread over the
  // parameters of `f`. The first exception ends all replicas and is thrown; structures that the
  // replicas return must have equal lengths and keys (InvalidArgument).
  template <typename F, typename... Args>
  auto run(F&& f, const Args&... args);

  // `op` over the replicas' values, as one value on the current device; with axes, over them too,
  // where Mean divides by the number of elements there are. Leaf by leaf of a structure.
  template <typename T>
  auto reduce(ReduceOp op, const T& value, const ReduceAxes& axes = {}, Site site = Site::here());
  // The same by name: "sum", in any letter case. Throws InvalidArgument for an unknown one.
  template <typename T>
  auto reduce(std::string_view op, const T& value, const ReduceAxes& axes = {},
              Site site = Site::here()) {
    return reduce(parse_reduce_op(op), value, axes, site);
  }
  // All replicas' values, one after the other along `axis`.
  template <typename T>
  Tensor gather(const T& value, int axis, Site site = Site::here());

  // One entry per local replica, also where all replicas returned one and the same thing; one alone
  // for what is not distributed. A structure has an entry per local replica, with each distributed
  // leaf replaced by that replica's part.
  template <typename T>
  auto local_results(const T& value) const;
  // What `f(ValueContext)` gives for each local replica, called one after the other.
  template <typename F>
  auto distribute_values_from_function(const F& f);

  // For replicas that span several logical devices; here each has one. They return `value` and
  // throw InvalidArgument when they name another device, or parts that do not fit.
  Tensor assign_to_logical_device(const Tensor& value, int logical_device) const;
  Tensor split_to_logical_devices(const Tensor& value, const std::vector<int64_t>& parts) const;
  Tensor replicate_to_logical_devices(const Tensor& value) const { return value; }

  // See <cohort/distributed_dataset.h>.
  DistributedDataset distribute_dataset(const data::Dataset& dataset,
                                        const InputOptions& options = {});
  DistributedDataset distribute_datasets_from_function(
      const std::function<data::Dataset(const InputContext&)>& f, const InputOptions& options = {});

  // Runs `f` inside the scope: Variable v = strategy.create([] { return Variable(0.f); });
  template <typename F>
  auto create(const F& f) {
    const StrategyScope inside(*this);
    return f();
  }

  // "MirroredStrategy(devices=['/job:localhost/…/device:CPU:0', …], num_replicas_in_sync=2)"
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Strategy& strategy);

 private:
  friend struct internal::ReduceLeaf;
  // Opens the scope and calls `body` for each local replica.
  void run_replicas(const std::function<void(ReplicaContext&)>& body);
  Tensor reduce_value(ReduceOp op, const DistributedValue& value, const ReduceAxes& axes,
                      const std::string& structure, Site site);
  Tensor reduce_whole(ReduceOp op, const DistributedValue& value);
  Tensor reduce_along(ReduceOp op, const DistributedValue& value, const ReduceAxes& axes);
  Tensor gather_value(const DistributedValue& value, int axis, Site site);
  void check_cross_replica(std::string_view what) const;

  const uint64_t id_;
  std::unique_ptr<StrategyExtended> extended_;
};

// Everything on one device, on the caller's thread: for trying code out before scaling.
class OneDeviceStrategy : public Strategy {
 public:
  explicit OneDeviceStrategy(std::string_view device);
};

struct MirroredOptions {
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;  // chosen by the devices when null
  GuardOptions guards = {};
};

// One replica per device, each with its own copy of every variable; the copies are kept equal.
class MirroredStrategy : public Strategy {
 public:
  // All GPUs, or the CPU of a machine without GPUs.
  explicit MirroredStrategy(const MirroredOptions& options = {});
  explicit MirroredStrategy(const std::vector<std::string>& devices,
                            const MirroredOptions& options = {});
  explicit MirroredStrategy(std::initializer_list<const char*> devices,
                            const MirroredOptions& options = {});
  MirroredStrategy(std::initializer_list<std::initializer_list<const char*>>,
                   const MirroredOptions& = {}) = delete;
};

struct CentralStorageOptions {
  std::vector<std::string> compute_devices = {};  // all GPUs, or the CPU
  std::string parameter_device = "";              // the compute device if there is one, else CPU:0
};

// One copy of every variable on one device, replicas on many.
class CentralStorageStrategy : public Strategy {
 public:
  explicit CentralStorageStrategy(const CentralStorageOptions& options = {});
};

}  // namespace cohort

#include "cohort/internal/strategy_inl.h"  // IWYU pragma: export
