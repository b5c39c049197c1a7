#include <cohort/cohort.h>

using namespace cohort;

struct Sums {
  Tensor loss, count;
};

void misuse(Strategy& strategy, const PerReplica<Sums>& sums) { strategy.gather(sums, 0); }
