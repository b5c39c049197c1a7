#pragma once

#include "cohort/distributed_dataset.h"

namespace cohort::internal {

// A strategy whose replicas run in other processes, which do not wait for each other. Its
// distributed datasets are descriptions: they are built for each worker by who runs the workers,
// and cannot be iterated here.
class RemoteWorkers {
 public:
  virtual ~RemoteWorkers() = default;
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
