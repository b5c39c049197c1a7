#include <cohort/cohort.h>

using namespace cohort;

struct Sums {
  Tensor loss, count;
};

void misuse(ReplicaContext& context, const Sums& sums) { context.all_reduce(ReduceOp::Sum, sums); }
