#include <cohort/cohort.h>

using namespace cohort;

void misuse(Strategy& strategy) {
  strategy.run([](const Tensor& x, const Tensor& y) { return x + y; }, Tensor(1.f));
}
