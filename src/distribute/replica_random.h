#pragma once

#include <cstdint>

#include "cohort/internal/torch_random.h"
#include "cohort/random.h"

namespace cohort::internal {

// The random numbers of the replicas of one run: each has its own, which depend on the caller's
// generator and the replica's id alone, so that they differ and a seed repeats them.
class ReplicaRandom {
 public:
  // Takes one number from the caller's generator, and one from torch's.
  ReplicaRandom() : origin_(random::default_generator().split()), torch_(draw_torch_seed()) {}
  random::Generator of(int replica_id) const;
  // What torch's functions begin with in the replica.
  uint64_t torch_seed_of(int replica_id) const;

 private:
  random::Generator origin_;
  uint64_t torch_;
};

// While it lives, this thread draws from `generator`.
class [[nodiscard]] GeneratorScope {
 public:
  explicit GeneratorScope(const random::Generator& generator)
      : outer_(random::default_generator()) {
    random::default_generator() = generator;
  }
  ~GeneratorScope() { random::default_generator() = outer_; }
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

 private:
  random::Generator outer_;
};

}  // namespace cohort::internal
