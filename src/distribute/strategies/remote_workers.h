#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/thread_context.h"
#include "cohort/distributed_dataset.h"

namespace cohort {
struct ClusterCoordinatorOptions;
}

namespace cohort::internal {

class ClusterCoordinatorState;

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
