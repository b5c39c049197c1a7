#pragma once

#include <typeinfo>

#include "cohort/cross_device_ops.h"
#include "cohort/distributed_dataset.h"

// A strategy decides where the replicas of a training step run, where variables live, and how the
// values of the replicas become one value.

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
                  Site site = Site::here()) {
    return all_reduce(parse_reduce_op(op), value, options, site);
  }
  // Concatenates the values of all replicas along `axis`, in every replica. Differentiable.
  template <typename T>
  auto all_gather(const T& value, int axis, const CommunicationOptions& options = {},
                  Site site = Site::here());

  std::string to_string() const;

 private:
  friend struct internal::Access;
  ReplicaContext(Strategy& strategy, int replica_id_in_sync_group, size_t local_replica,
                 internal::ReplicaRendezvous* rendezvous);
  void check_current(std::string_view what) const;
  // merge_call() after arrays and functions among the arguments have decayed.
  template <typename Merge, typename... Args>
  auto merge_decayed(const Merge& merge, const Args&... args);
  // Calls `body` once with the `own` of each replica, in the order of the replicas.
  void merge(const std::type_info& kind, void* own,
             const std::function<void(std::span<void* const>)>& body);
  // `may_lack`: the types of the values allow undefined values, here or on other workers.
  // `structure` describes the structure with these leaves, for the comparison of the calls.
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

// StrategyTraits describes a strategy to the rest of the library. The defaults fit a strategy with
// one copy of each variable per replica and all replicas in this process.
struct StrategyTraits {
  // Whether this process writes checkpoints and summaries. Of several workers the chief does.
  bool is_chief = true;
  // Whether each process runs its own copy of the program.
  bool between_graph = false;
  // Whether the strategy always has one replica, so that its values are never distributed.
  bool is_single = false;
  // Whether its scope also makes the first of worker_devices() the current device.
  bool opens_device = false;
  // Whether a dataset's elements go to worker_devices(). If not, they stay where they are made.
  bool moves_input = true;
  // Whether replicas for which the last batch of a dataset has no rows get an empty element.
  bool fills_partial_steps = true;
  // Whether the strategy supports InputReplicationMode::PerReplica.
  bool supports_replica_pipelines = false;
  // How many replicas, of this and of other processes, share the cores of this machine; 0 = only
  // the replicas of this process do.
  size_t replicas_on_host = 0;
  // The resolver that found the tasks of its cluster; null without a cluster.
  const ClusterResolver* cluster_resolver = nullptr;
  // The checks of updates and writes of its variables.
  GuardOptions guards = {};
  // The options of communication between replicas, for calls that do not set them.
  CommunicationOptions communication = {};
};

// ReplicaReduction holds the values that one replica contributes to a reduction over all replicas.
struct ReplicaReduction {
  ReduceOp op = ReduceOp::Sum;
  const std::vector<Gradient>& values;
  // Whether values may be undefined, or sparse, in some replicas and not in others: gradients.
  bool may_lack = false;
  CommunicationOptions options = {};
};

// StrategyExtended is the base class of strategies' implementations: derive from it to write your
// own strategy. Strategy, variables, optimizers and datasets do everything through its functions.
// The functions with a body here serve a strategy whose replicas are threads of this process, one
// for each of worker_devices(), with a copy of each variable on each of parameter_devices().
// Abilities of only some strategies are interfaces of their own (CrossWorkerInput, GradientReducer,
// CloneableStrategy), from which your class derives as well.
//
//   class OnTwoCpus : public StrategyExtended {
//    public:
//     std::string name() const override { return "OnTwoCpus"; }
//     std::vector<std::string> worker_devices() const override { return {"CPU:0", "CPU:1"}; }
//   };
//
// Unless its comment says otherwise, a function must be called in cross-replica context or outside
// every scope, and throws FailedPrecondition elsewhere.
class StrategyExtended {
 public:
  StrategyExtended();
  virtual ~StrategyExtended();
  StrategyExtended(const StrategyExtended&) = delete;
  StrategyExtended& operator=(const StrategyExtended&) = delete;

  // --- What the strategy is
  virtual std::string name() const = 0;  // "MirroredStrategy"
  virtual std::vector<std::string> worker_devices() const = 0;
  virtual std::vector<std::string> parameter_devices() const { return worker_devices(); }
  virtual StrategyTraits traits() const { return {}; }

  // --- What the strategy does
  // Creates a variable; `next` creates an ordinary one.
  virtual Variable create_variable(const NextCreator& next, const VariableRequest& request);
  // Calls `body` for each local replica, in its context and on its device, all at the same time.
  virtual void call_for_each_replica(const std::function<void(ReplicaContext&)>& body);
  // Reduces each request; returns one result for each.
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
  // Called in every replica: returns the reductions of all replicas' values.
  virtual std::vector<Gradient> replica_all_reduce(ReplicaContext& context,
                                                   const ReplicaReduction& own);

  // --- Made from the functions above
  bool should_checkpoint() const { return traits().is_chief; }
  bool should_save_summary() const { return traits().is_chief; }
  bool should_init() const { return true; }
  bool between_graph() const { return traits().between_graph; }
  bool require_static_shapes() const { return false; }
  const ClusterResolver* cluster_resolver() const { return traits().cluster_resolver; }
  GuardOptions guards() const { return traits().guards; }
  // The device that the strategy's scope opens; "" = none.
  std::string default_device() const;
  // For each local replica, the device where its elements go; "" = they stay where they are made.
  std::vector<std::string> input_devices() const;
  // The numbers of replicas of this process, of the whole group, and on the cores of this machine.
  // They are known as soon as this object belongs to a Strategy.
  size_t num_local_replicas() const { return local_replicas_; }
  int num_replicas_in_sync() const { return replicas_in_sync_; }
  size_t replicas_on_host() const;
  // Returns the id of a local replica in the whole group.
  int replica_id(size_t local_replica) const {
    return first_replica_id_ + static_cast<int>(local_replica);
  }
  // The functions of CrossWorkerInput. Without that interface they return what a single worker has.
  InputContext input_context() const;
  InputTotals sum_over_workers(const InputTotals& here);
  std::vector<std::string> gather_from_workers(const std::string& here, const std::string& what);
  std::vector<int64_t> sum_numbers(const std::vector<int64_t>& here, const std::string& what);
  Tensor from_first_worker(const Tensor& value);
  DistributedValue reduce_to(ReduceOp op, const DistributedValue& value,
                             const Destinations& destinations,
                             const CommunicationOptions& options = {});
  // Calls `change(copy, arguments...)` for each copy of `variable`; of a distributed argument each
  // call gets the component that belongs to the copy. In replica context the call is a merge.
  //
  //   const auto subtract = [](Variable copy, Tensor delta) { copy.assign_sub(delta); };
  //   strategy.extended().update(w, subtract, x);
  template <typename F, typename... Args>
  DistributedValue update(const Variable& variable, const F& change, const Args&... args);
  // The same for things other than variables: `change(arguments...)` once per destination.
  template <typename F, typename... Args>
  DistributedValue update_non_slot(const Destinations& where, const F& change, const Args&... args);
  std::vector<std::string> non_slot_devices(const std::vector<Variable>& variables) const;
  // Returns the value of `variable` across replicas, in any context.
  Tensor read_var(const Variable& variable);
  // Returns the distributed variable that `copy` is a copy of, or `copy` itself.
  Variable value_container(const Variable& copy) const;
  // While the returned scope is open, variables are created where the copies of `variable` are.
  VariableCreatorScope colocate_vars_with(const Variable& variable);
  bool variable_created_in_scope(const Variable& variable) const;

  // The strategy that this object belongs to. Throws FailedPrecondition before it belongs to one.
  Strategy& strategy() const;

 protected:
  // Returns the full names of devices of this process, which may be given in any form; an empty
  // list means all GPUs, or the CPU if there is none. Naming a CPU device creates it. Throws
  // InvalidArgument if a device does not exist or is given twice.
  static std::vector<std::string> resolve_devices(std::string_view strategy,
                                                  const std::vector<std::string>& names);
  // The algorithm that reduces, copies and gathers between the devices, by default
  // ReductionToOneDevice. Replicas of one process are faster with DirectAllReduce, because they
  // then reduce without batch_reduce_to(). A strategy that overrides batch_reduce_to() and uses
  // DirectAllReduce must therefore override replica_all_reduce() as well.
  virtual CrossDeviceOps& cross_device_ops() const;

 private:
  friend class Strategy;
  friend void internal::observe_runs(const Strategy& strategy,
                                     const std::shared_ptr<internal::RunObserver>& observer);
  // Makes this object part of `strategy`.
  void attach(Strategy& strategy);
  // The context of the replica of this strategy that the thread is in; null outside replicas.
  ReplicaContext* own_replica() const;
  // Calls `change(k)` for each destination, on its device and in update context k.
  DistributedValue update_places(const Destinations& where,
                                 const std::function<Tensor(size_t)>& change);
  Strategy* strategy_ = nullptr;
  size_t local_replicas_ = 0;
  int replicas_in_sync_ = 0;
  int first_replica_id_ = 0;
  // The threads of the replicas; they are kept from run to run.
  internal::Owned<internal::ReplicaThreadPool> replica_threads_;
  // The fast form of DirectAllReduce, for replicas that meet; null for other algorithms.
  internal::Owned<internal::ThreadAllReduce> thread_all_reduce_;
};

// CrossWorkerInput is the interface of a strategy whose replicas are in several processes. It lets
// the workers exchange what they need so that all replicas get the same input steps. All workers
// call each function that exchanges something, in the same order.
class CrossWorkerInput {
 public:
  virtual ~CrossWorkerInput() = default;
  // How many workers there are, which of them this one is, and how many replicas all have.
  virtual InputContext input_context() const = 0;
  // Returns the sum over all workers; called once per step.
  virtual InputTotals sum_over_workers(const InputTotals& here) { return here; }
  // Returns the texts of all workers, in the order of the workers. `what` says what the texts are
  // for and is the same on all workers; workers can compare it, so that two exchanges do not mix.
  // Needed if a worker has no data from the beginning and must learn from the others what elements
  // look like; without this function that is an error on all workers.
  virtual std::vector<std::string> gather_from_workers(const std::string& here,
                                                       const std::string& what);
  // Returns the sums over all workers, which all give the same `what`.
  virtual std::vector<int64_t> sum_numbers(const std::vector<int64_t>& here,
                                           const std::string& what);
  // Returns the value of the worker with replica 0, on all workers.
  virtual Tensor from_first_worker(const Tensor& value) { return value; }
};

// GradientReducer is the interface of a strategy that sums an optimizer's gradients in a better way
// than replica_all_reduce() does.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  // Called in every replica: returns the sums over all replicas of the gradients of `variables`. An
  // optimizer uses the sums at once, so they may lie in memory that the next call overwrites.
  virtual Gradients sum_gradients(ReplicaContext& context, const Gradients& own,
                                  const std::vector<Variable>& variables) = 0;
};

// CloneableStrategy is the interface of a strategy that Strategy::deep_copy() can copy.
class CloneableStrategy {
 public:
  virtual ~CloneableStrategy() = default;
  virtual std::unique_ptr<StrategyExtended> clone() const = 0;
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
  int num_replicas_in_sync() const { return extended_->num_replicas_in_sync(); }
  const ClusterResolver* cluster_resolver() const { return extended_->cluster_resolver(); }

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
              Site site = Site::here()) {
    return reduce(parse_reduce_op(op), value, axes, site);
  }
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
