#include "distribute/replica_random.h"

namespace cohort::internal {

random::Generator ReplicaRandom::of(int replica_id) const {
  random::Generator origin = origin_;
  for (int i = 0; i < replica_id; ++i) origin.split();
  return origin.split();
}

}  // namespace cohort::internal
