// How the gradients of an optimizer's update, of all replicas, reach the copies of the variables.
//
// Which path they take, by the first row that fits:
//
// | where                          | path                              | why
// |--------------------------------|-----------------------------------|---------------------------
// | 1 one replica in all           | its own gradients                 | nothing is to be added
// |--------------------------------|-----------------------------------|---------------------------
// | 2 a replica traces a function  | nodes ReplicaAllReduce and        | values come later; a
// |   by itself                    | ReplicaAllGather, which take row  | difference is found when
// |                                | 5 or 6 when they run              | the nodes run
// |--------------------------------|-----------------------------------|---------------------------
// | 3 all replicas build one graph | CrossDeviceOps as nodes, and then | as row 2
// |                                | WorkerAllReduce between workers   |
// |--------------------------------|-----------------------------------|---------------------------
// | 4 several workers              | packs, reduced where they lie or  | overlaps with the backward
// |                                | by messages; rows are gathered    | pass
// |                                | (WorkerGradients::sum)            |
// |--------------------------------|-----------------------------------|---------------------------
// | 5 replicas of this process,    | threads that share memory         | nothing is sent
// |   DirectAllReduce, dense       | (ThreadAllReduce); by the bytes   |
// |   numbers                      | of all values together:           |
// |   a at most 1 KB               | each copies its values for the    | they meet once
// |                                | others and adds up everything for |
// |                                | itself                            |
// |   b at most 16 KB, where       | the last replica to arrive adds   | meeting again would take
// |     replicas share cores       | up everything for all             | longer
// |   c more                       | each adds up a slice for all into | the replicas add up at the
// |                                | memory that all share, and they   | same time
// |                                | meet again                        |
// |--------------------------------|-----------------------------------|---------------------------
// | 6 rows, missing gradients,     | CrossDeviceOps::batch_reduce,     | any form; the program
// |   other algorithms             | once for all replicas             | chose the algorithm
//
// The benchmark of row 4 is bench_multi_worker, "MLP 784-512-512-10, beside one process" and
// "LeNet on 28x28, beside one process". That of row 5 is bench_strategies, "all-reduce of 4 KB, 2
// replicas" to "all-reduce of 100 MB, 4 replicas".
//
// What happens with the sums: where each replica has a copy of the variables it updates that copy.
// Otherwise (central storage, parameter servers) one replica updates for all. In a function that a
// synchronous parameter server strategy schedules, the sums are added to accumulators instead, and
// the update is a function of its own (RemoteWorkers::add_to_group).
//
// All rows add in the order of the replicas and workers, so that they give the same bits, and
// compare the calls before values are combined.

#include <algorithm>

#include "base/raise.h"
#include "cohort/graph.h"
#include "distribute/contexts/context.h"
#include "distribute/reduce/gradient_presence.h"
#include "distribute/reduce/replica_calls.h"
#include "distribute/reduce/variable_aggregation.h"
#include "distribute/strategies/worker_strategies.h"
#include "distribute/variables/distributed_variable.h"
#include "distribute/variables/update_guards.h"
#include "distribute/variables/variable_creation.h"
#include "distribute/variables/variable_kinds.h"
#include "ops/dispatch.h"
#include "optim/optimizer.h"
#include "variables/variable_creators.h"

namespace cohort::internal {
namespace {

Strategy* maker_of(const Variable& variable) { return VariableAccess::impl(variable)->strategy; }

// Whether each replica has a copy of the variable to itself.
bool has_own_copies(const Variable& variable) {
  return std::dynamic_pointer_cast<MirroredVariable>(VariableAccess::impl(variable)) != nullptr;
}

// An optimizer's update of variables of one strategy.
class StrategyUpdate : public UpdatePath {
 public:
  explicit StrategyUpdate(Strategy& strategy) : strategy_(strategy) {}

  bool owns(const Variable& variable) const override { return maker_of(variable) == &strategy_; }

  Variable make_beside(const Variable& neighbour, const VariableRequest& request) const override {
    const ModeScope across({&strategy_, nullptr});
    std::vector<std::string> devices;
    for (const Variable& copy : copies_of(neighbour)) devices.push_back(copy.device());
    const CreationDevices there(devices);
    const KnownInitialValues on_all_workers;
    return create_in(strategy_, make_ordinary_variable, request);
  }

  const Variable& copy_of(const Variable& variable, size_t index) const override {
    const auto* whole = dynamic_cast<DistributedVariable*>(VariableAccess::impl(variable).get());
    if (whole == nullptr) return variable;
    return whole->copies()[std::min(index, whole->copies().size() - 1)];
  }

  Tensor apply(const Gradients& own, const std::vector<Variable>& variables,
               const Step& step) const override {
    const EnterOrAssert inside(strategy_, "apply_gradients");
    ReplicaContext* replica = get_replica_context();
    if (replica == nullptr) {
      const auto* workers = dynamic_cast<RemoteWorkers*>(&strategy_.extended());
      if (workers != nullptr) workers->warn_outside("apply_gradients()");
      return now_or_later(own, variables, step);
    }
    if (!std::all_of(variables.begin(), variables.end(), has_own_copies)) {
      return with_sums(*replica, own, variables, step, nullptr);
    }
    ReplicaTurn turn(*replica, distributed(variables[0])->writing_all());
    return with_sums(*replica, own, variables, step, &turn);
  }

 private:
  // `turn` is null where the replicas do not have copies of their own.
  Tensor with_sums(ReplicaContext& replica, const Gradients& own,
                   const std::vector<Variable>& variables, const Step& step,
                   ReplicaTurn* turn) const {
    auto* const reducer = dynamic_cast<GradientReducer*>(&strategy_.extended());
    const Gradients sums = replica.num_replicas_in_sync() == 1 ? own
                           : reducer != nullptr ? reducer->sum_gradients(replica, own, variables)
                                                : sum_by_all_reduce(replica, own, variables);
    const bool now = thread_dispatch().builder == nullptr;
    const bool is_guarded = now && strategy_.extended().guards().non_finite != GuardAction::Off;
    if (is_guarded && !passes_finite_guard(replica, own, sums, variables, step.taken)) return {};
    if (turn != nullptr) {
      turn->all_met();
      return own_copy(replica, sums, variables, step);
    }
    return once_for_all(replica, [&] { return now_or_later(sums, variables, step); });
  }

  // Updates all copies. The update comes later where it waits for the gradients of several workers.
  Tensor now_or_later(const Gradients& gradients, const std::vector<Variable>& variables,
                      const Step& step) const {
    auto* workers = dynamic_cast<RemoteWorkers*>(&strategy_.extended());
    if (workers == nullptr || !workers->groups_gradients())
      return across(gradients, variables, step);
    return workers->add_to_group(gradients, variables, step.taken, [&](const Gradients& of_group) {
      return across(of_group, variables, step);
    });
  }

  // Each replica updates its own copy, all replicas at the same time.
  Tensor own_copy(ReplicaContext& replica, const Gradients& sums,
                  const std::vector<Variable>& variables, const Step& step) const {
    const Tensor count = one_copy(replica.local_replica(), sums, step);
    if (thread_dispatch().builder != nullptr) return count;
    const GuardOptions guards = strategy_.extended().guards();
    JointWorkers* const workers = joint_workers(strategy_.extended());
    const int64_t updates = workers == nullptr
                                ? count.to<int64_t>()
                                : workers->count_update(step.taken, replica.local_replica());
    if (divergence_guard_is_due(guards, updates)) {
      guard_against_divergence(replica, guards, variables, count.to<int64_t>());
    }
    return count;
  }

  // Updates one copy after the other.
  Tensor across(const Gradients& gradients, const std::vector<Variable>& variables,
                const Step& step) const {
    std::vector<Tensor> results;
    const std::vector<Variable> copies = copies_of(variables[0]);
    const WritersTurn turn = turn_to_write(variables[0]);
    for (size_t i = 0; i < copies.size(); ++i) {
      const CopyDeviceScope there(copies[i].device());
      results.push_back(one_copy(i, gradients, step));
    }
    return results[0].is_symbolic() ? group(results) : results[0];
  }

  Tensor one_copy(size_t index, const Gradients& sums, const Step& step) const {
    const ModeScope across({&strategy_, nullptr});
    const UpdateScope updating(index);  // for the program's own code, such as a schedule
    return step.take(sums, index);
  }

  Strategy& strategy_;
};

void check_maker(const Strategy& strategy, const Variable& variable) {
  if (maker_of(variable) == &strategy) return;
  raise(Code::InvalidArgument,
        "[Optimizer] variable '{}' was made outside of the scope of {}, but the optimizer's own "
        "variables for it would be made inside; make both in one scope",
        variable.name(), strategy.extended().name());
}

}  // namespace

// The path of the current strategy, otherwise of the strategy that made the variables.
std::unique_ptr<UpdatePath> find_update_path(const std::vector<Variable>& variables) {
  if (variables.empty()) return nullptr;
  Strategy* strategy = has_strategy() ? &get_strategy() : maker_of(variables[0]);
  for (size_t i = 1; strategy == nullptr && i < variables.size(); ++i) {
    strategy = maker_of(variables[i]);
  }
  if (strategy == nullptr) return nullptr;
  for (const Variable& variable : variables) check_maker(*strategy, variable);
  require_own_replica(*strategy, "apply_gradients");
  return std::make_unique<StrategyUpdate>(*strategy);
}

Gradients sum_by_all_reduce(ReplicaContext& context, const Gradients& own,
                            const std::vector<Variable>& variables) {
  const UpdatedVariables updated(variables);
  // A traced step has one form, so the replicas compare which gradients they have.
  std::optional<CollectivePurpose> purpose;
  if (thread_dispatch().builder != nullptr) purpose.emplace(describe_presence(own, variables));
  if (is_tracing_alone(context)) {
    return trace_all_reduce(ReduceOp::Sum, own, context.num_replicas_in_sync(), {});
  }
  const RecordingPause unheard;
  return context.strategy().extended().replica_all_reduce(context,
                                                          {.values = own, .may_lack = true});
}

}  // namespace cohort::internal
