#include <cohort/cohort.h>

using namespace cohort;

Tensor misuse() {
  return function([](const Tensor& x, const Tensor& y) { return x + y; })(Tensor(1.f));
}
