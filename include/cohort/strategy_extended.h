#pragma once

#include "cohort/strategy.h"

// What the author of a strategy needs: the base class StrategyExtended, what it says about itself,
// and interfaces for the abilities of only some strategies. cohort/strategy.h is for programs that
// use a strategy.

namespace cohort {

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
  size_t num_local_replicas() const;
  int num_replicas_in_sync() const;
  size_t replicas_on_host() const;
  // Returns the id of a local replica in the whole group.
  int replica_id(size_t local_replica) const;
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
  friend struct internal::Access;
  // Makes this object part of `strategy`.
  void attach(Strategy& strategy);

  internal::Owned<internal::StrategyImpl> impl_;
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

}  // namespace cohort

#include "cohort/internal/strategy_extended_inl.h"  // IWYU pragma: export
