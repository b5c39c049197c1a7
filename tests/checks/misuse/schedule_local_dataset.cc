#include <cohort/cohort.h>

using namespace cohort;

void misuse(ClusterCoordinator& coordinator) {
  coordinator.schedule([](Iterator it) { return it.next().tensor(); }, data::range(4));
}
