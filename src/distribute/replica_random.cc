#include "distribute/replica_random.h"

namespace cohort::internal {

random::Generator ReplicaRandom::of(int replica_id) const {
  random::Generator origin = origin_;
  for (int i = 0; i < replica_id; ++i) origin.split();
  return origin.split();
}

// SplitMix64: neighbouring ids give seeds without anything in common.
uint64_t ReplicaRandom::torch_seed_of(int replica_id) const {
  uint64_t x = torch_ + (static_cast<uint64_t>(replica_id) + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace cohort::internal
