#pragma once

#include "cohort/cross_device_ops.h"
#include "cohort/distributed_dataset.h"

// A strategy decides where the replicas of a training step run, where variables live, and how the
// values of the replicas become one value. cohort/strategy_extended.h is for strategies of your
// own.

namespace cohort {

class ClusterResolver;
class Strategy;
class StrategyExtended;
class ReplicaContext;

// --- Contexts. Every thread is in one of two contexts. It is in a replica context inside the
// function given to `run`, and outside every scope. It is in a cross-replica context inside a
// strategy's scope and inside a merge function. A new thread begins outside every scope.

// Returns the current strategy. Outside every scope that is the default strategy, under which code
// behaves as ordinary code.
Strategy& get_strategy();
// Reports whether this thread is inside the scope or a replica of a strategy, except the default.
bool has_strategy();
bool in_cross_replica_context();
// Returns the context of the replica that this code runs in, or null in a cross-replica context.
ReplicaContext* get_replica_context();
// Makes `strategy` current on this thread until the next call; nullptr makes none current. Throws
// FailedPrecondition inside another strategy's scope.
void set_strategy(Strategy* strategy);

// StrategyScope makes a strategy current on this thread. While the scope is open, the thread is in
// cross-replica context, and the strategy creates every variable. Strategy::scope() returns one.
// Opening a scope throws FailedPrecondition inside another strategy or inside a replica.
class [[nodiscard]] StrategyScope {
 public:
  explicit StrategyScope(Strategy& strategy);
  ~StrategyScope();  // closes the scope; logs what close() would throw
  StrategyScope(const StrategyScope&) = delete;
  StrategyScope& operator=(const StrategyScope&) = delete;

  // Opens the scope once more; scopes of one strategy nest.
  void enter();
  // Closes the scope. Throws FailedPrecondition, and leaves the scope open, if a device, variable
  // creator or name scope opened inside it is open, or one opened before it is closed.
  void close();

 private:
  Strategy& strategy_;
  int nested_ = 0;                               // times entered while the strategy was current
  internal::Owned<internal::ScopeState> state_;  // null unless this scope made it current
};

// ValueContext names the replica for which distribute_values_from_function() makes a value.
struct ValueContext {
  int replica_id_in_sync_group = 0;
  int num_replicas_in_sync = 1;
};

// ReplicaContext identifies the replica that the current code runs in, and combines its values with
// those of other replicas. It is valid on the replica's thread until its `run` returns.
//
//   const auto norms = strategy.run([&] {
//     ReplicaContext* context = get_replica_context();
//     return context->all_reduce(ReduceOp::Sum, sum(x * x));
//   });
class ReplicaContext {
 public:
  Strategy& strategy() const { return strategy_; }
  int replica_id_in_sync_group() const { return id_; }
  int num_replicas_in_sync() const;
  size_t local_replica() const { return local_; }
  // The device of this replica.
  std::vector<std::string> devices() const;

  // Waits for all replicas, then calls replica 0's `merge(strategy, arguments...)` once, in
  // cross-replica context. Each replica gets its component of the result.
  //
  // An argument of type T arrives as PerReplica<T>, which converts to T if all replicas gave the
  // same object. A structure arrives with PerReplica leaves, and an array or a function as the
  // pointer that it decays to. A variable arrives as itself; if `merge` takes a
  // PerReplica<Variable>, the replicas may give different variables.
  //
  // What `merge` throws is thrown in all replicas. Throws FailedPrecondition, with the names of the
  // replicas, if some replicas never make the call.
  template <typename Merge, typename... Args>
  auto merge_call(const Merge& merge, const Args&... args);

  // Combines the values of all replicas by `op`, leaf by leaf of a structure, and returns the
  // result in every replica. A replica contributes its own copy of a variable. Differentiable. All
  // replicas must make the call, in the same order and with equal shapes. Otherwise it throws
  // FailedPrecondition (InvalidArgument for shapes), which names the replicas and both calls.
  //
  // For Sum and Mean, a Gradient that is undefined in some replicas counts as zeros there; the
  // result is undefined if it is undefined in all replicas. In traced functions, of several
  // replicas or workers, all must define the same gradients (FailedPrecondition).
  template <typename T>
  auto all_reduce(ReduceOp op, const T& value, const CommunicationOptions& options = {},
                  Site site = Site::here());
  // The same with a name, "sum" in any letter case. Throws InvalidArgument if it is unknown.
  template <typename T>
  auto all_reduce(std::string_view op, const T& value, const CommunicationOptions& options = {},
                  Site site = Site::here());
  // Concatenates the values of all replicas along `axis`, in every replica. Differentiable.
  template <typename T>
  auto all_gather(const T& value, int axis, const CommunicationOptions& options = {},
                  Site site = Site::here());

  std::string to_string() const;

 private:
  friend struct internal::Access;
  ReplicaContext(Strategy& strategy, int replica_id_in_sync_group, size_t local_replica,
                 internal::ReplicaRendezvous* rendezvous);

  Strategy& strategy_;
  int id_;
  size_t local_;
  internal::ReplicaRendezvous* rendezvous_;
};
std::ostream& operator<<(std::ostream& out, const ReplicaContext& context);

// ReduceAxes names axes along which Strategy::reduce() reduces besides the replicas, if any.
struct ReduceAxes {
  ReduceAxes() = default;
  ReduceAxes(int axis) : axes{axis} {}
  ReduceAxes(std::initializer_list<int> list) : axes(list.begin(), list.end()) {}
  ReduceAxes(const std::vector<int>& list) : axes(list.begin(), list.end()) {}
  ReduceAxes(std::nullopt_t) {}
  std::vector<int64_t> axes;
};

// GuardAction says what a check does when it finds something.
enum class GuardAction {
  Off,   // does not check
  Warn,  // logs a warning and goes on
  Skip,  // logs a warning and leaves the update out, in all replicas
  Stop,  // throws, in all replicas
};

// GuardOptions chooses the checks that optimizers and variables of a strategy make.
struct GuardOptions {
  // Compares the copies of the variables that an optimizer updates, by their hashes, after the
  // first update and after each `divergence_interval`-th; empty: never. If copies differ, the
  // DataLoss error or the warning names the variable, the replicas and the step. Variables that
  // were written copy by copy (aggregation None, extended().update()) may differ and are left out.
  std::optional<int64_t> divergence_interval = 100;
  GuardAction divergence = GuardAction::Stop;  // Skip acts as Stop
  // Looks for NaN and infinities in the gradients before each update, and names their variables and
  // replicas. Stop throws InvalidArgument. Costs one pass over the gradients.
  GuardAction non_finite = GuardAction::Off;
  // Notices that a replica alone writes its copy of a mirrored variable (aggregation None), so that
  // copies may come to differ, and names the variable and the replica. Stop throws
  // FailedPrecondition; Warn and Skip log it once for each variable.
  GuardAction lone_writes = GuardAction::Off;
};

// Strategy runs a training step on several replicas and combines their values. Most programs
// construct a derived class; your own is `Strategy(std::make_unique<MyExtended>())`.
//
//   MirroredStrategy mirrored({"CPU:0", "CPU:1"});
//   auto scope = mirrored.scope();
//   Variable weight(1.f);  // one copy per replica
//   for (const auto& batch : mirrored.distribute_dataset(dataset)) {
//     const auto losses = mirrored.run([&](Tensor rows) { return mean(rows * weight); }, batch);
//     const Tensor mean_loss = mirrored.reduce(ReduceOp::Mean, losses);
//   }
//
// Methods that compute must be called in cross-replica context or outside every scope; inside a
// replica they throw FailedPrecondition. A strategy must outlive its variables and datasets.
class Strategy {
 public:
  explicit Strategy(std::unique_ptr<StrategyExtended> extended);
  virtual ~Strategy();
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  // Returns another strategy like this one. Throws FailedPrecondition for the default strategy, and
  // Unimplemented if the strategy does not derive from CloneableStrategy.
  std::unique_ptr<Strategy> deep_copy() const;

  StrategyScope scope() { return StrategyScope(*this); }
  // A number that no other strategy of this process has.
  uint64_t id() const { return id_; }
  StrategyExtended& extended() const { return *extended_; }
  int num_replicas_in_sync() const;
  // The resolver that found the tasks of its cluster; null without a cluster.
  const ClusterResolver* cluster_resolver() const;

  // Calls `f` once per replica, all at the same time, and returns what each call returned. Each
  // replica gets its component of a distributed argument, also in vectors, tuples and maps; all
  // else, variables too, passes unchanged. A dataset's element becomes several arguments.
  //
  // A Variable that `f` makes is one variable of all replicas, and begins with the initial value of
  // replica 0. Each run makes another one, so `f` keeps what a later run needs.
  //
  // The first exception ends all replicas and is thrown. Throws InvalidArgument if the replicas
  // return structures with different lengths or keys.
  template <typename F, typename... Args>
  auto run(F&& f, const Args&... args);

  // Combines the values of all replicas by `op` into one value on the current device, leaf by leaf
  // of a structure. With axes it reduces along them, too; Mean divides by the number of elements.
  template <typename T>
  auto reduce(ReduceOp op, const T& value, const ReduceAxes& axes = {}, Site site = Site::here());
  // The same with a name, "sum" in any letter case. Throws InvalidArgument if it is unknown.
  template <typename T>
  auto reduce(std::string_view op, const T& value, const ReduceAxes& axes = {},
              Site site = Site::here());
  // Returns the values of all replicas, concatenated along `axis`.
  template <typename T>
  Tensor gather(const T& value, int axis, Site site = Site::here());

  // Returns a vector with the value of each local replica, also if all are the same. For a value
  // that is not distributed, the vector has only that value. For a structure it has one structure
  // per local replica, with that replica's part of each distributed leaf.
  template <typename T>
  auto local_results(const T& value) const;
  // Calls `f(ValueContext)` for each local replica, one after the other, and returns the results.
  template <typename F>
  auto distribute_values_from_function(const F& f);

  // For replicas that span several logical devices; here each replica has one. All three return
  // `value`. The first two throw InvalidArgument for another device, or parts that do not fit.
  Tensor assign_to_logical_device(const Tensor& value, int logical_device) const;
  Tensor split_to_logical_devices(const Tensor& value, const std::vector<int64_t>& parts) const;
  Tensor replicate_to_logical_devices(const Tensor& value) const { return value; }

  // See <cohort/distributed_dataset.h>.
  DistributedDataset distribute_dataset(const data::Dataset& dataset,
                                        const InputOptions& options = {});
  DistributedDataset distribute_datasets_from_function(
      const std::function<data::Dataset(const InputContext&)>& f, const InputOptions& options = {});

  // Calls `f` inside the scope: Variable v = strategy.create([] { return Variable(0.f); });
  template <typename F>
  auto create(const F& f);

  // "MirroredStrategy(devices=['/job:localhost/…/device:CPU:0', …], num_replicas_in_sync=2)"
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Strategy& strategy);

 private:
  const uint64_t id_;
  internal::Owned<StrategyExtended> extended_;
};

// OneDeviceStrategy runs one replica on one device, on the caller's thread. It is for trying out
// code before scaling: `OneDeviceStrategy strategy("CPU:0");`.
class OneDeviceStrategy : public Strategy {
 public:
  explicit OneDeviceStrategy(std::string_view device);
};

// MirroredOptions configures a MirroredStrategy.
struct MirroredOptions {
  std::shared_ptr<CrossDeviceOps> cross_device_ops = nullptr;  // null: chosen by the devices
  GuardOptions guards = {};
};

// MirroredStrategy runs one replica per device of this process, and keeps all copies of a variable
// equal.
//
//   MirroredStrategy two({"CPU:0", "CPU:1"});
//   auto scope = two.scope();
//   nn::Dense layer(4, 1);
//   optim::Sgd sgd({.learning_rate = 0.1});
//   two.run([&] { sgd.minimize([&] { return mean(layer(x)); }, layer.trainable_variables()); });
class MirroredStrategy : public Strategy {
 public:
  // Uses all GPUs, or the CPU if the machine has no GPU.
  explicit MirroredStrategy(const MirroredOptions& options = {});
  // Uses these devices. A CPU:N that does not exist yet is made.
  explicit MirroredStrategy(const std::vector<std::string>& devices,
                            const MirroredOptions& options = {});
  explicit MirroredStrategy(std::initializer_list<const char*> devices,
                            const MirroredOptions& options = {});
  MirroredStrategy(std::initializer_list<std::initializer_list<const char*>>,
                   const MirroredOptions& = {}) = delete;
};

// CentralStorageOptions configures a CentralStorageStrategy.
struct CentralStorageOptions {
  std::vector<std::string> compute_devices = {};  // empty: all GPUs, or the CPU
  std::string parameter_device = "";  // "": the compute device if there is one, else CPU:0
};

// CentralStorageStrategy keeps one copy of every variable on one device and runs one replica on
// each compute device: `CentralStorageStrategy strategy({.compute_devices = {"CPU:0", "CPU:1"}});`.
class CentralStorageStrategy : public Strategy {
 public:
  explicit CentralStorageStrategy(const CentralStorageOptions& options = {});
};

// Returns the strategy for which this process was started, so that one program trains in every way.
//
//   auto chosen = strategy_from_environment();
//   auto scope = chosen->scope();
//
// The variable COHORT_STRATEGY, which `cohort run --strategy` sets, names the strategy:
// - one_device, mirrored and central_storage run in this process, on its GPUs or else its CPU;
// - multi_worker trains in lockstep with the other workers;
// - parameter_server makes the chief train with the workers and ps tasks.
//
// Without the variable, the cluster that resolver_from_environment() finds decides:
// parameter_server if it has ps tasks, multi_worker if several of its tasks train, otherwise
// mirrored on several devices or one_device. An evaluator always runs alone.
//
// Under parameter_server the call never returns on ps and worker tasks. Such a process serves, and
// exits with code 0 when the chief shuts the cluster down or SIGTERM arrives. The chief's strategy
// shuts the cluster down when it is destroyed, unless the program has done so. After an exception
// the servers stay up for a restarted chief.
//
// Throws InvalidArgument if COHORT_STRATEGY has an unknown value, or if the cluster has ps tasks
// but no chief, and what resolver_from_environment() and the strategies' constructors throw.
std::unique_ptr<Strategy> strategy_from_environment();

}  // namespace cohort

#include "cohort/internal/strategy_inl.h"  // IWYU pragma: export
