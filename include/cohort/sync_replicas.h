#pragma once

#include "cohort/hooks.h"
#include "cohort/internal/durations.h"

namespace cohort {

// SyncReplicasOptions sets the numbers of workers and gradients of a SyncReplicasOptimizer.
struct SyncReplicasOptions {
  int replicas_to_aggregate = 1;                         // R: gradients per update
  std::optional<int> total_num_replicas = std::nullopt;  // N: number of workers; default R
  // The number of this worker, from 0 to N - 1. By default it is the task of the worker device; if
  // the device names no task, the worker takes part without a number.
  std::optional<int> worker_index = std::nullopt;
  // Each optimizer of a program needs its own name.
  std::string name = "sync_replicas";
  // Adds an op that runs after each update, such as moving averages of the variables.
  std::function<Tensor()> after_update = nullptr;
  // The limit for one step of the hook, including the wait for others (DeadlineExceeded). Empty: no
  // limit but that of the session.
  std::optional<std::chrono::milliseconds> step_timeout = std::chrono::minutes(10);
  // How long a finished chief still serves other workers that make no progress.
  std::chrono::milliseconds idle_limit{120'000};
};

// SyncReplicasOptimizer trains the same variables with several between-graph workers synchronously:
// each update uses the mean of the gradients of R of N workers, which all used the same values.
//
//   auto building = graph.as_default();
//   SyncReplicasOptimizer synchronous(optimizer, {.replicas_to_aggregate = 3});
//   Tensor train_op = synchronous.minimize(loss, {}, global_step());
//   MonitoredTrainingSession training(
//       {.is_chief = task == 0, .hooks = {synchronous.make_session_run_hook(task == 0)}});
//
// Each worker adds its gradients to accumulators beside the variables and waits for a token. A
// thread of the chief takes R gradients of each variable, updates the variables, increments the
// global step and hands out max(N, R) tokens with the new step. Gradients of an earlier step are
// dropped.
// - If R = N, each update uses all workers.
// - If R < N, there are N - R backup workers: each update drops the slowest results.
// - If R > N, workers contribute several batches to an update.
//
// Scale the learning rate for the mean of R gradients.
//
// A worker that has ended or is lost no longer counts. The task of the global step detects the loss
// of each worker that has a number and uses the hook; for others, call mark_left(). With W workers
// left, an update takes min(R, W + max(0, R - N)) gradients, but at least one, even if it waits
// already, and hands out as many tokens as these workers can use. A worker that returns counts
// again. The register of absent workers is beside the global step. A finished chief serves the
// other workers until they have left, or make no progress for idle_limit.
//
// The wrapped optimizer must outlive the building of the graph. All workers build the same graph.
class SyncReplicasOptimizer {
 public:
  // Throws InvalidArgument unless R, N and step_timeout are positive and worker_index is from 0 to
  // N - 1.
  explicit SyncReplicasOptimizer(optim::Optimizer& optimizer,
                                 const SyncReplicasOptions& options = {});

  // Returns the op that a worker runs for each batch. Call it once (FailedPrecondition). Variables
  // without a gradient do not change. Throws InvalidArgument without any variable or gradient,
  // without a global step, and if a variable is not of a graph.
  Tensor apply_gradients(const Gradients& gradients, const std::vector<Variable>& variables,
                         std::optional<Variable> global_step = std::nullopt,
                         Site site = Site::here());
  // Applies the gradients of `loss` for these variables; by default, for all trainable ones.
  Tensor minimize(const Tensor& loss, const std::vector<Variable>& variables = {},
                  std::optional<Variable> global_step = std::nullopt, Site site = Site::here());

  // The following functions throw FailedPrecondition before gradients are applied.

  // Returns a hook that does all of this for the MonitoredSession of the chief or another worker.
  std::shared_ptr<SessionRunHook> make_session_run_hook(
      bool is_chief, std::optional<int> num_tokens = std::nullopt, Site site = Site::here()) const;

  // The parts of that hook, for programs without hooks. The threads of the chief:
  QueueRunner get_chief_queue_runner() const;
  // Hands out the first tokens; by default max(0, R - N) tokens, so that no first batch is wasted;
  // -1, as in TensorFlow, is the same as empty. Throws InvalidArgument for fewer tokens.
  Tensor get_init_tokens_op(std::optional<int> num_tokens = std::nullopt,
                            Site site = Site::here()) const;
  Tensor chief_init_op() const;       // for the chief, before it starts the threads
  Tensor local_step_init_op() const;  // for the other workers, before the first step
  Tensor ready_for_local_init_op() const;

  // State that a worker has left or has returned, for a program that watches the cluster. Any
  // session will do. Throws InvalidArgument unless `worker` is from 0 to N - 1.
  void mark_left(Session& session, int worker) const;
  void mark_joined(Session& session, int worker) const;
  // Returns the number of workers that take part; int64.
  Tensor num_live_workers() const;

  // Returns the step of the variables that this worker computes with.
  Variable local_step() const;

 private:
  const internal::SyncReplicas& applied(std::string_view what) const;

  optim::Optimizer& optimizer_;
  const SyncReplicasOptions options_;
  std::shared_ptr<internal::SyncReplicas> replicas_;
};

}  // namespace cohort
