#include "distribute/strategy_update.h"

#include <algorithm>

#include "base/raise.h"
#include "cohort/graph.h"
#include "distribute/aggregate.h"
#include "distribute/context.h"
#include "distribute/distributed_variable.h"
#include "distribute/gradient_terms.h"
#include "distribute/mirrored_variable.h"
#include "distribute/multi_worker_extended.h"
#include "distribute/remote_workers.h"
#include "distribute/update_guards.h"
#include "distribute/variables.h"
#include "ops/dispatch.h"
#include "train/update_path.h"
#include "train/variable_creators.h"

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
    if (step.adds && may_add_up(*replica)) {
      if (const Tensor count = with_terms(*replica, own, variables, step, turn); count.defined()) {
        return count;
      }
    }
    return with_sums(*replica, own, variables, step, &turn);
  }

 private:
  // Whether the step may be given everybody's gradients to add up.
  bool may_add_up(const ReplicaContext& replica) const;
  // Nothing where they do not fit.
  Tensor with_terms(ReplicaContext& replica, const Gradients& own,
                    const std::vector<Variable>& variables, const Step& step,
                    ReplicaTurn& turn) const;
  // Without a turn the replicas have no copies of their own.
  Tensor with_sums(ReplicaContext& replica, const Gradients& own,
                   const std::vector<Variable>& variables, const Step& step,
                   ReplicaTurn* turn) const;
  // Each replica its own copy, all at the same time.
  Tensor own_copy(ReplicaContext& replica, std::span<const Gradients> terms,
                  const std::vector<Variable>& variables, const Step& step) const;
  // Across all copies; later where the gradients of several workers are waited for.
  Tensor now_or_later(const Gradients& gradients, const std::vector<Variable>& variables,
                      const Step& step) const;
  // Every copy in turn.
  Tensor across(const Gradients& gradients, const std::vector<Variable>& variables,
                const Step& step) const;
  Tensor one_copy(size_t index, std::span<const Gradients> terms, const Step& step) const;

  Strategy& strategy_;
};

bool StrategyUpdate::may_add_up(const ReplicaContext& replica) const {
  return thread_dispatch().builder == nullptr && replica.num_replicas_in_sync() > 1 &&
         strategy_.extended().guards().non_finite == GuardAction::Off;
}

Tensor StrategyUpdate::with_terms(ReplicaContext& replica, const Gradients& own,
                                  const std::vector<Variable>& variables, const Step& step,
                                  ReplicaTurn& turn) const {
  StrategyExtended& extended = strategy_.extended();
  auto* const workers = dynamic_cast<MultiWorkerExtended*>(&extended);
  if (workers != nullptr && workers->num_workers() > 1) {
    const std::vector<Gradients> terms = workers->gradient_terms(own, variables);
    if (terms.empty()) return {};
    turn.all_met();
    return own_copy(replica, terms, variables, step);
  }
  if (!extended.traits().shares_gradients) return {};
  const std::vector<Gradients> terms = gradient_terms(replica, own, variables);
  if (terms.empty()) return {};
  turn.all_met();
  Tensor count = own_copy(replica, terms, variables, step);
  end_of_terms(replica);
  return count;
}

Tensor StrategyUpdate::with_sums(ReplicaContext& replica, const Gradients& own,
                                 const std::vector<Variable>& variables, const Step& step,
                                 ReplicaTurn* turn) const {
  const Gradients sums = replica.num_replicas_in_sync() == 1
                             ? own
                             : strategy_.extended().replica_sum_gradients(replica, own, variables);
  const bool now = thread_dispatch().builder == nullptr;
  if (now && !passes_finite_guard(replica, {own, sums, variables, step.taken})) return {};
  if (turn != nullptr) {
    turn->all_met();
    return own_copy(replica, {&sums, 1}, variables, step);
  }
  return once_for_all(replica, [&] { return now_or_later(sums, variables, step); });
}

Tensor StrategyUpdate::now_or_later(const Gradients& gradients,
                                    const std::vector<Variable>& variables,
                                    const Step& step) const {
  auto* workers = dynamic_cast<RemoteWorkers*>(&strategy_.extended());
  if (workers == nullptr || !workers->groups_gradients()) return across(gradients, variables, step);
  return workers->add_to_group(gradients, variables, step.taken, [&](const Gradients& of_group) {
    return across(of_group, variables, step);
  });
}

Tensor StrategyUpdate::own_copy(ReplicaContext& replica, std::span<const Gradients> terms,
                                const std::vector<Variable>& variables, const Step& step) const {
  const Tensor count = one_copy(replica.local_replica(), terms, step);
  if (thread_dispatch().builder != nullptr) return count;
  const GuardOptions guards = strategy_.extended().guards();
  auto* const workers = dynamic_cast<MultiWorkerExtended*>(&strategy_.extended());
  const int64_t updates = workers == nullptr
                              ? count.to<int64_t>()
                              : workers->count_update(step.taken, replica.local_replica());
  if (divergence_guard_is_due(guards, updates)) {
    guard_against_divergence(replica, guards, variables, count.to<int64_t>());
  }
  return count;
}

Tensor StrategyUpdate::across(const Gradients& gradients, const std::vector<Variable>& variables,
                              const Step& step) const {
  std::vector<Tensor> results;
  const std::vector<Variable> copies = copies_of(variables[0]);
  const WritersTurn turn = turn_to_write(variables[0]);
  for (size_t i = 0; i < copies.size(); ++i) {
    const CopyDeviceScope there(copies[i].device());
    results.push_back(one_copy(i, {&gradients, 1}, step));
  }
  return results[0].is_symbolic() ? group(results) : results[0];
}

Tensor StrategyUpdate::one_copy(size_t index, std::span<const Gradients> terms,
                                const Step& step) const {
  const ModeScope across({&strategy_, nullptr});
  const UpdateScope updating(index);
  return step.take(terms);
}

void check_maker(const Strategy& strategy, const Variable& variable) {
  if (maker_of(variable) == &strategy) return;
  raise(
      Code::InvalidArgument,
      "[Optimizer] variable '{}' was made outside of the scope of {}, but what the optimizer keeps "
      "for it would be made inside; make both in one scope",
      variable.name(), strategy.extended().name());
}

// The current strategy, else the one that made the variables.
std::unique_ptr<UpdatePath> find_route(const std::vector<Variable>& variables) {
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

}  // namespace

void connect_optimizers() { set_update_route_finder(find_route); }

}  // namespace cohort::internal
