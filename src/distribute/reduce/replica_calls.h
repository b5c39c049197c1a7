#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/collective_purpose.h"
#include "cohort/cross_device_ops.h"
#include "cohort/strategy_extended.h"
#include "distribute/contexts/replica_rendezvous.h"

namespace cohort::internal {

// While it lives, what this thread reduces are the gradients of these variables, which must be the
// same in all replicas.
class UpdatedVariables : ContextValue<const std::vector<Variable>*> {
 public:
  explicit UpdatedVariables(const std::vector<Variable>& variables)
      : ContextValue(innermost_, &variables) {}
  // Null outside all such scopes.
  static const std::vector<Variable>* current() { return innermost_.get(); }

 private:
  static inline constinit ContextSlot<const std::vector<Variable>*> innermost_;
};

// Whether both lists have the same variables in the same order.
bool are_same(const std::vector<Variable>& one, const std::vector<Variable>& other);

// The arguments and results of one replica in a rendezvous that reduces or gathers.
struct ReplicaCall {
  std::string_view what;  // "all_reduce"; a literal
  ReduceOp op = ReduceOp::Sum;
  int axis = 0;
  std::span<const Gradient> values = {};
  CommunicationOptions options = {};
  std::vector<Gradient> results = {};
  const CollectivePurpose* purpose = CollectivePurpose::current();
  const std::vector<Variable>* variables = UpdatedVariables::current();

  // What the call is for; the same in all replicas.
  std::string_view reason() const {
    const bool is_known = purpose != nullptr && !purpose->what().empty();
    return is_known ? purpose->what() : what;
  }
  // Which line of the program made the call; line 0 where that is not known or not compared.
  Site site() const { return purpose != nullptr && compares_sites() ? purpose->site() : Site{}; }
  // The call as the rendezvous sees it. ReplicaCalls finds this object in it again.
  ReplicaRendezvous::Call as_call();
  // "all_reduce(Sum, float32 (2,))", and what for where that says more.
  std::string to_string() const;
};

// The replicas' calls, in order.
class ReplicaCalls {
 public:
  explicit ReplicaCalls(std::span<void* const> owns) : owns_(owns) {}
  size_t size() const { return owns_.size(); }
  ReplicaCall& operator[](size_t replica) const {
    return *static_cast<ReplicaCall*>(owns_[replica]);
  }
  // All replicas' values at one place of the list.
  std::vector<Gradient> at(size_t position) const;
  // Throws unless all ask for the same, for the same purpose, at the same place of the program and
  // for the same variables: FailedPrecondition, naming replicas and both calls.
  void check_same() const;

 private:
  std::span<void* const> owns_;
};

// In each replica: the replicas meet. After a check that their calls agree, one replica calls
// `once`, which sets the results of all calls.
void meet_once(ReplicaContext& context, ReplicaCall& own,
               const std::function<void(const ReplicaCalls&)>& once);

// One replica calls this for all: checks that the calls agree and sets the results of all calls, by
// batch_reduce_to in cross-replica context.
void reduce_for_all(StrategyExtended& extended, const ReplicaCalls& calls);

// Whether this replica builds a graph by itself, in a function that it traces. Then it cannot meet
// the other replicas.
bool is_tracing_alone(const ReplicaContext& context);
// Adds nodes to such a function: rows are gathered, dense values are reduced. The replicas compare
// the purpose of this thread when the nodes run.
std::vector<Gradient> trace_all_reduce(ReduceOp op, const std::vector<Gradient>& values,
                                       int replicas, const CommunicationOptions& options);

// In a replica: the sums over all replicas of the gradients of `variables`, by
// StrategyExtended::replica_all_reduce(), or as nodes where the replica traces a function.
Gradients sum_by_all_reduce(ReplicaContext& context, const Gradients& own,
                            const std::vector<Variable>& variables);

}  // namespace cohort::internal
