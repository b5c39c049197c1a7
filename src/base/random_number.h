#pragma once

#include <cstdint>
#include <random>

namespace cohort::internal {

// 64 bits of the system's random source, for seeds, identities and names that must not repeat.
inline uint64_t random_number() {
  std::random_device source;
  return (uint64_t{source()} << 32) | source();
}

}  // namespace cohort::internal
