#pragma once

#include "cohort/graph_variable.h"
#include "cohort/queue.h"
#include "cohort/session.h"
#include "cohort/sync_replicas.h"

namespace cohort::internal {

// The symbol of the variable's state, for nodes that are colocated with the variable.
const Tensor& handle_of(const Variable& variable);

// Records which of N workers take part. The state is beside the global step, which all workers
// share: for each worker a number, which is 1 while the worker is absent, and one more number that
// counts the absent anonymous workers. A queue reports changes to the chief.
class SyncMembership {
 public:
  static constexpr int kAnonymous = -1;
  enum class Event { Leave, Join };

  // Adds the nodes to the graph being built.
  SyncMembership(const std::string& name, int num_workers, const Variable& global_step);

  int num_workers() const { return num_workers_; }
  // A node that counts the workers that are present; int64.
  Tensor count_live() const;
  // Gives the register its first value, unless it has a value.
  const Tensor& init_op() const { return init_; }
  const Tensor& is_initialized() const { return initialized_; }
  // Marks all workers as present.
  const Tensor& reset_op() const { return reset_; }
  // Returns after a change; nodes that run after it see the change.
  const Tensor& wait_op() const { return changed_; }
  // Ends a run of wait_op().
  const Tensor& poke_op() const { return poke_; }

  // The presence of a worker is a run that lasts until the worker leaves. When its process is lost,
  // the task that has the register ends the run and notes that the worker is absent.
  struct Presence {
    Tensor hold;     // returns when the presence is released
    Tensor held;     // returns when a hold has begun
    Tensor release;  // from another thread
  };
  // Adds the nodes for one of the workers to the graph being built.
  Presence presence_of(int worker) const;

  // Returns false if the register has no value yet and therefore did not record the event. All
  // workers count as present then.
  bool mark(Session& session, int worker, Event event) const;

 private:
  const std::string name_;
  const int num_workers_;
  const Tensor anchor_;  // the handle of the global step, with which all nodes are colocated
  Variable absent_;
  FifoQueue changes_;
  Tensor initialized_, init_, reset_, changed_, poke_;
  Tensor row_, number_;  // fed to the marks
  Tensor mark_known_,
      mark_other_;  // set the number of a worker; add to the number of anonymous ones
};

// R, N and the counts that depend on the number of workers that take part.
struct ReplicaCounts {
  int64_t to_aggregate;  // R
  int64_t total;         // N

  // How many gradients an update takes while `live` workers take part, and how many tokens it hands
  // out.
  Tensor required(const Tensor& live) const;
  Tensor tokens(const Tensor& live) const;
  int64_t default_initial_tokens() const { return std::max<int64_t>(0, to_aggregate - total); }
};

class GradientAccumulator;

// The nodes for synchronous training in one worker's graph. All clients build the same nodes.
struct SyncReplicas {
  SyncReplicas(optim::Optimizer& optimizer, const SyncReplicasOptions& options,
               const Gradients& gradients, const std::vector<Variable>& variables,
               const Variable& step);

  // Adds a node that hands out `count` tokens with the present step.
  Tensor give_tokens(const Tensor& count);

  const ReplicaCounts counts;
  Variable global_step;
  SyncMembership membership;
  Variable local_step;
  int worker;  // SyncMembership::kAnonymous when neither the options nor the device tell
  std::optional<SyncMembership::Presence> presence;  // none for an anonymous worker
  FifoQueue tokens;
  std::vector<std::shared_ptr<GradientAccumulator>> accumulators;  // by variable
  std::optional<QueueRunner> chief_runner;
  Tensor train_op, chief_init_op, local_step_init_op, ready_op, step_now, num_live;

 private:
  void accumulate(const std::string& name, const Gradients& gradients,
                  const std::vector<Variable>& variables);
  Tensor build_train_op(const Gradients& gradients);
  Tensor build_update(optim::Optimizer& optimizer, const SyncReplicasOptions& options,
                      const std::vector<Variable>& variables);
  Tensor take_token();
  // The number of gradients and of tokens of an update for the present workers, beside the global
  // step.
  Tensor required_now() const;
  Tensor tokens_now() const;
  Tensor build_limits();
  Tensor build_cancel();
  Tensor build_chief_init();
};

}  // namespace cohort::internal
