#include "distribute/strategies/remote_workers.h"

namespace cohort::internal {
namespace {

constinit ContextSlot<const BuildForWorker*> innermost_build;

}  // namespace

BuildForWorker::BuildForWorker(int worker, int workers)
    : ContextValue(innermost_build, this), worker_(worker), workers_(workers) {}

InputContext BuildForWorker::context(int replicas) {
  const BuildForWorker* building = innermost_build.get();
  return building == nullptr ? InputContext(1, 0, replicas)
                             : InputContext(building->workers_, building->worker_, replicas);
}

}  // namespace cohort::internal
