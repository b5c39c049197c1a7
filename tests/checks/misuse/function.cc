#include <cohort/cohort.h>

using namespace cohort;

struct Batch {
  Tensor x, y;
};

Tensor misuse(const Batch& batch) {
  return function([](const Batch& given) { return given.x + given.y; })(batch);
}
