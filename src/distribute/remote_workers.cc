#include "distribute/remote_workers.h"

namespace cohort::internal {
namespace {

const BuildForWorker*& innermost() {
  thread_local const BuildForWorker* building = nullptr;
  return building;
}

}  // namespace

BuildForWorker::BuildForWorker(int worker, int workers)
    : outer_(innermost()), worker_(worker), workers_(workers) {
  innermost() = this;
}
BuildForWorker::~BuildForWorker() { innermost() = outer_; }

InputContext BuildForWorker::context(int replicas) {
  const BuildForWorker* building = innermost();
  return building == nullptr ? InputContext(1, 0, replicas)
                             : InputContext(building->workers_, building->worker_, replicas);
}

}  // namespace cohort::internal
