#pragma once

#include <variant>

#include "cohort/accumulator.h"
#include "cohort/sync_replicas.h"
#include "graph_training/sync_membership.h"

namespace cohort::internal {

// R, N and the counts that follow from how many workers take part.
struct ReplicaCounts {
  int64_t to_aggregate;  // R
  int64_t total;         // N

  // How many gradients an update takes while `live` workers take part, and how many tokens it gives
  // out.
  Tensor required(const Tensor& live) const;
  Tensor tokens(const Tensor& live) const;
  int64_t default_initial_tokens() const { return std::max<int64_t>(0, to_aggregate - total); }
};

// Accumulates the gradients of one variable for an update. The nodes are placed with the variable.
class GradientAccumulator {
 public:
  GradientAccumulator(const std::string& name, const Variable& variable, const Gradient& gradient);

  Tensor apply(const Gradient& gradient, const Tensor& local_step);
  Gradient take(int64_t count);
  Tensor set_global_step(const Tensor& step);
  Tensor limit_required(const Tensor& most);
  Tensor cancel_pending_takes();

 private:
  AccumulatorHandle& handle();

  Tensor anchor_;
  std::variant<ConditionalAccumulator, SparseConditionalAccumulator> accumulator_;
};

// The nodes for synchronous training in one worker's graph. All clients build the same nodes.
class SyncReplicas {
 public:
  SyncReplicas(optim::Optimizer& optimizer, const SyncReplicasOptions& options,
               const Gradients& gradients, const std::vector<Variable>& variables,
               const Variable& global_step);

  // SyncMembership::kAnonymous when neither the options nor the device tell.
  int worker() const { return worker_; }
  const ReplicaCounts& counts() const { return counts_; }
  const SyncMembership& membership() const { return membership_; }
  // None for an anonymous worker.
  const std::optional<SyncMembership::Presence>& presence() const { return presence_; }
  const Variable& local_step() const { return local_step_; }
  const Tensor& train_op() const { return train_op_; }
  const QueueRunner& chief_runner() const { return *chief_runner_; }
  const Tensor& chief_init_op() const { return chief_init_; }
  const Tensor& local_step_init_op() const { return local_step_init_; }
  const Tensor& ready_op() const { return ready_; }
  const Tensor& global_step() const { return step_now_; }
  const Tensor& num_live() const { return num_live_; }
  // A node that gives out `count` tokens with the present step.
  Tensor give_tokens(const Tensor& count);

 private:
  void accumulate(const std::string& name, const Gradients& gradients,
                  const std::vector<Variable>& variables);
  Tensor build_train_op(const Gradients& gradients);
  Tensor build_update(optim::Optimizer& optimizer, const SyncReplicasOptions& options,
                      const std::vector<Variable>& variables);
  Tensor take_token();
  // What an update takes and gives for the workers that are present, beside the global step.
  Tensor required_now() const;
  Tensor tokens_now() const;
  Tensor build_limits();
  Tensor build_cancel();
  Tensor build_chief_init();

  const ReplicaCounts counts_;
  Variable global_step_;
  SyncMembership membership_;
  Variable local_step_;
  int worker_;
  std::optional<SyncMembership::Presence> presence_;
  FifoQueue tokens_;
  std::vector<std::optional<GradientAccumulator>> accumulators_;  // by variable
  std::optional<QueueRunner> chief_runner_;
  Tensor train_op_, chief_init_, local_step_init_, ready_, step_now_, num_live_;
};

}  // namespace cohort::internal
