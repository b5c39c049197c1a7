#include <cohort/cohort.h>

using namespace cohort;

void misuse(ClusterCoordinator& coordinator) {
  coordinator.schedule([](const Tensor& x, const Tensor& y) { return x + y; }, Tensor(1.f));
}
