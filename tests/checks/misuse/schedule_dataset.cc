#include <cohort/cohort.h>

using namespace cohort;

void misuse(ClusterCoordinator& coordinator, const PerWorkerDataset& dataset) {
  coordinator.schedule(function([](Iterator it) { return it.next().tensor(); }), dataset);
}
