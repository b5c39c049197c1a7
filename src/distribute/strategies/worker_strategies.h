#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "base/thread_context.h"
#include "cohort/collective.h"
#include "cohort/distributed_dataset.h"
#include "cohort/internal/gradient_listener.h"
#include "cohort/strategy_extended.h"

// The two kinds of strategies whose replicas are in several processes.
namespace cohort {
struct ClusterCoordinatorOptions;
}

namespace cohort::internal {

class ClusterCoordinatorState;

// A strategy whose replicas are in several processes that run the same program and compute
// together. RemoteWorkers are the other kind.
class JointWorkers {
 public:
  virtual ~JointWorkers() = default;

  virtual int num_workers() const = 0;
  virtual int worker_id() const = 0;
  // The group of the workers, by their ids.
  virtual Communicator communicator() const = 0;

  // Whether other workers make the same calls now.
  virtual bool meets_others() const = 0;
  // Whether `holds`, a boolean scalar, is true on all workers. All workers call it together.
  virtual Tensor on_all_workers(const Tensor& holds) = 0;
  // A replica calls this after an update that `optimizers_count` counts. Returns how many such
  // updates the workers have made since they formed their group. All workers get the same number,
  // while the optimizer of a restarted worker may count from 0 again.
  virtual int64_t count_update(const Variable& optimizers_count, size_t local_replica) = 0;
  // What listens to the tapes of a replica; null when nothing does.
  virtual GradientListener* gradient_listener(size_t local_replica) const = 0;

  // After a worker was lost: leaves the group and waits until all workers, with the successor of
  // the lost worker, have formed a new group. Every worker that is left calls it. Variables keep
  // their values. Throws what the constructor of the strategy throws. After that this worker is in
  // no group: what workers do together throws Unavailable until another rejoin() succeeds.
  virtual void rejoin(std::chrono::milliseconds timeout) = 0;
  // Says that this process, which has joined workers that had trained before, now has their values.
  // Before this call it makes variables without the other workers.
  virtual void end_newcomer() = 0;
};

// Null for strategies of one process, or one worker.
inline JointWorkers* joint_workers(StrategyExtended& extended) {
  auto* const workers = dynamic_cast<JointWorkers*>(&extended);
  return workers != nullptr && workers->num_workers() > 1 ? workers : nullptr;
}

// A strategy whose replicas run in other processes, which do not wait for each other. Its
// distributed datasets are descriptions: the coordinator builds them for each worker, and they
// cannot be iterated here.
class RemoteWorkers {
 public:
  virtual ~RemoteWorkers() = default;

  // Logs a warning, naming the call, unless this thread traces code for the workers.
  virtual void warn_outside(std::string_view call) const = 0;
  // Whether an optimizer's update in the code that this thread traces is made once for the steps of
  // several workers.
  virtual bool groups_gradients() const = 0;
  // Called in code that is traced. Adds the gradients to those of the group. `update` makes the
  // update with their mean; it is traced, too, and called at most once. `count` identifies the
  // optimizer.
  using Update = std::function<Tensor(const Gradients& mean)>;
  virtual Tensor add_to_group(const Gradients& gradients, const std::vector<Variable>& variables,
                              const Variable& count, const Update& update) = 0;

  // The coordinator of the workers. The first call makes it; all its holders share it.
  virtual std::shared_ptr<ClusterCoordinatorState> coordinator_state(
      const ClusterCoordinatorOptions& options) = 0;
  // Whether a coordinator has ended the tasks of the cluster.
  virtual bool has_ended() const = 0;
};

// While it lives, this thread builds the input of one of several workers.
class [[nodiscard]] BuildForWorker : ContextValue<const BuildForWorker*> {
 public:
  BuildForWorker(int worker, int workers)
      : ContextValue(innermost_, this), worker_(worker), workers_(workers) {}

  // The pipeline that is being built, of a worker with that many replicas. Outside such a scope it
  // is the pipeline of the only worker.
  static InputContext context(int replicas) {
    const BuildForWorker* building = innermost_.get();
    return building == nullptr ? InputContext(1, 0, replicas)
                               : InputContext(building->workers_, building->worker_, replicas);
  }

 private:
  static inline constinit ContextSlot<const BuildForWorker*> innermost_;

  const int worker_;
  const int workers_;
};

}  // namespace cohort::internal
