#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cohort/graph_variable.h"
#include "cohort/hooks.h"
#include "cohort/optim.h"
#include "cohort/threads.h"

namespace cohort {

struct SyncReplicasOptions {
  int replicas_to_aggregate = 1;                         // gradients per update: R
  std::optional<int> total_num_replicas = std::nullopt;  // workers: N; as many as R when not given
  // Which worker this is, in [0, N). When not given it is the task that the worker device names; a
  // worker that has neither counts as "one of them".
  std::optional<int> worker_index = std::nullopt;
  // Optimizers of one program have different names.
  std::string name = "sync_replicas";
  // Makes something that runs after each update, such as moving averages of the variables.
  std::function<Tensor()> after_update = nullptr;
  // The longest that one step may take, waiting for the others included (DeadlineExceeded); 0 = no
  // limit. The hook sees to it.
  std::chrono::milliseconds step_timeout{600'000};
  // How long a chief that is done serves others that make no progress.
  std::chrono::milliseconds idle_limit{120'000};
};

namespace internal {
class SyncReplicas;
}

// Synchronous training of between-graph workers: an optimizer that updates the variables with the
// mean of the gradients of R of N workers, all of which computed them from the same values.
//
// Every worker adds its gradients to accumulators beside the variables and waits for a token. The
// chief, in a thread of its own, takes R gradients of each variable, updates, counts the global
// step up and gives out max(N, R) tokens with the new step. A gradient of an earlier step is
// dropped.
//  - R = N: all workers, each update.
//  - R < N: N - R backup workers; the slowest results of each update are dropped.
//  - R > N: workers contribute several batches to one update.
// Gradients are averaged, so scale the learning rate.
//
// A worker that ends no longer counts, nor does one whose process is lost: the task that has the
// global step notices that by itself, of workers that it knows by number and that use the hook, and
// mark_left() says it of others. With W workers left an update takes min(R, W + max(0, R - N))
// gradients, at least one, also one that is waited for already, and as many tokens are given out as
// those workers can use. The register of absent workers lives beside the global step; one that
// comes back is counted again. A chief that is done serves the others until they have left, or make
// no progress for idle_limit.
//
//   optim::Sgd sgd({.learning_rate = 0.1});
//   SyncReplicasOptimizer optimizer(sgd, {.replicas_to_aggregate = 3});
//   Tensor train_op = optimizer.minimize(loss, {}, global_step());
//   MonitoredTrainingSession session({.is_chief = chief,
//                                     .hooks = {optimizer.make_session_run_hook(chief)}});
//
// `optimizer` must outlive the building of the graph. All workers build the same graph.
class SyncReplicasOptimizer {
 public:
  // InvalidArgument unless R and N are positive and the index is below N.
  explicit SyncReplicasOptimizer(optim::Optimizer& optimizer,
                                 const SyncReplicasOptions& options = {});

  // What a worker runs for each batch. Once. Variables without a gradient stay as they are; none at
  // all, no variables, no global step, and variables outside a graph are InvalidArgument.
  Tensor apply_gradients(const Gradients& gradients, const std::vector<Variable>& variables,
                         std::optional<Variable> global_step = std::nullopt);
  // The same for the gradients of `loss`, for these variables or all trainable ones.
  Tensor minimize(const Tensor& loss, const std::vector<Variable>& variables = {},
                  std::optional<Variable> global_step = std::nullopt);

  // What follows is there once gradients were applied; FailedPrecondition before.

  // Does everything that a MonitoredSession's worker, or chief, needs.
  std::shared_ptr<SessionRunHook> make_session_run_hook(bool is_chief, int num_tokens = -1) const;

  // The parts of it, for programs without hooks. The chief's threads:
  QueueRunner get_chief_queue_runner() const;
  // Tokens to begin with; -1: max(0, R - N), so that no first batch is wasted. Less is
  // InvalidArgument.
  Tensor get_init_tokens_op(int num_tokens = -1) const;
  Tensor chief_init_op() const;       // the chief, before it starts the threads
  Tensor local_step_init_op() const;  // all other workers, before the first step
  Tensor ready_for_local_init_op() const;

  // The worker no longer takes part, or does again: for a program that watches over the cluster.
  // Any session will do. InvalidArgument unless 0 <= worker < N.
  void mark_left(Session& session, int worker) const;
  void mark_joined(Session& session, int worker) const;
  // How many workers take part; int64.
  Tensor num_live_workers() const;

  // The step of the variables that this worker computes with.
  Variable local_step() const;

 private:
  const internal::SyncReplicas& applied(std::string_view what) const;

  optim::Optimizer& optimizer_;
  const SyncReplicasOptions options_;
  std::shared_ptr<internal::SyncReplicas> replicas_;
};

}  // namespace cohort
