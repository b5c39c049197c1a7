#pragma once

#include "cohort/graph_variable.h"
#include "cohort/queue.h"
#include "cohort/session.h"

namespace cohort::internal {

// The symbol of the variable's state: what stands beside the variable is colocated with it.
const Tensor& handle_of(const Variable& variable);

// Which of N workers take part, as state beside the global step that all of them share: a number
// per worker that is 1 when it is absent, and one more that counts absent workers nobody knows by
// number. A queue tells the chief of changes.
class SyncMembership {
 public:
  static constexpr int kAnonymous = -1;
  enum class Event { Leave, Join };

  // Adds the nodes to the graph being built.
  SyncMembership(const std::string& name, int num_workers, const Variable& global_step);

  int num_workers() const { return num_workers_; }
  // A node that counts those present; int64.
  Tensor count_live() const;
  // Gives the register its first value; one that has a value keeps it.
  const Tensor& init_op() const { return init_; }
  const Tensor& is_initialized() const { return initialized_; }
  // All are present again.
  const Tensor& reset_op() const { return reset_; }
  // Returns after a change; nodes that run after it see the change.
  const Tensor& wait_op() const { return changed_; }
  // Ends such a wait.
  const Tensor& poke_op() const { return poke_; }

  // That a worker is there, as a run that lasts until it leaves: when its process is lost, the task
  // that has the register ends the run and notes that the worker is absent.
  struct Presence {
    Tensor hold;     // returns when it is released
    Tensor held;     // returns when a hold has begun
    Tensor release;  // from another thread
  };
  // Adds the nodes for one of the workers to the graph being built.
  Presence presence_of(int worker) const;

  // Says whether it is noted: while the register has no value all are taken to be present.
  bool mark(Session& session, int worker, Event event) const;

 private:
  const std::string name_;
  const int num_workers_;
  const Tensor anchor_;  // the global step's handle: everything is where it is
  Variable absent_;
  FifoQueue changes_;
  Tensor initialized_, init_, reset_, changed_, poke_;
  Tensor row_, number_;             // fed to the marks
  Tensor mark_known_, mark_other_;  // sets the number of a worker; adds to that of the anonymous
};

}  // namespace cohort::internal
