#include <cohort/cohort.h>

using namespace cohort;

struct Sums {
  Tensor loss, count;
};

void misuse(Strategy& strategy, const PerReplica<Sums>& sums) {
  strategy.reduce(ReduceOp::Sum, sums);
}
