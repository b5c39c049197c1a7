#include "base/random_number.h"

#include <random>

namespace cohort::internal {

uint64_t random_number() {
  std::random_device source;
  return (uint64_t{source()} << 32) | source();
}

}  // namespace cohort::internal
