#pragma once

#include <functional>
#include <string_view>

#include "cohort/distributed_dataset.h"

namespace cohort::internal {

// A strategy whose replicas run in other processes, which do not wait for each other. Its
// distributed datasets are descriptions: they are built for each worker by who runs the workers,
// and cannot be iterated here.
class RemoteWorkers {
 public:
  virtual ~RemoteWorkers() = default;

  // Logs a warning, naming the call, unless this thread traces code for the workers.
  virtual void warn_outside(std::string_view call) const = 0;
  // Whether an optimizer's update, here and now, is to be made once for the steps of several
  // workers.
  virtual bool groups_gradients() const = 0;
  // In code that is traced: adds the gradients to those of the group. `update` makes the update
  // with their mean; it is traced too, and called at most once. `count` tells the optimizer.
  using Update = std::function<Tensor(const Gradients& mean)>;
  virtual Tensor add_to_group(const Gradients& gradients, const std::vector<Variable>& variables,
                              const Variable& count, const Update& update) = 0;
};

// While it lives, this thread builds the input of one of several workers.
class [[nodiscard]] BuildForWorker {
 public:
  BuildForWorker(int worker, int workers);
  ~BuildForWorker();
  BuildForWorker(const BuildForWorker&) = delete;
  BuildForWorker& operator=(const BuildForWorker&) = delete;

  // The pipeline being built, of a worker with that many replicas; of the only one where none is.
  static InputContext context(int replicas);

 private:
  const BuildForWorker* outer_;
  const int worker_;
  const int workers_;
};

}  // namespace cohort::internal
