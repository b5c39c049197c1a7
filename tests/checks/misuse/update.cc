#include <cohort/cohort.h>

using namespace cohort;

void misuse(Strategy& strategy, const Variable& variable) {
  strategy.extended().update(
      variable, [](const Tensor& delta) { return delta; }, Tensor(1.f));
}
