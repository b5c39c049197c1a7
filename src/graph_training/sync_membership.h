#pragma once

#include "cohort/graph_variable.h"
#include "cohort/queue.h"
#include "cohort/session.h"

namespace cohort::internal {

// The symbol of the variable's state, for nodes that are colocated with the variable.
const Tensor& handle_of(const Variable& variable);

// Which of N workers take part. The state lives beside the global step, which all workers share:
// for each worker a number that is 1 while the worker is absent, and one more number that counts
// the absent anonymous workers. A queue tells the chief of changes.
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

  // Returns whether the register took the note: while it has no value, all workers count as
  // present.
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

}  // namespace cohort::internal
