#pragma once

#include <cstdint>

namespace cohort::internal {

// 64 bits of the system's random source: for seeds, identities and names that must not repeat.
uint64_t random_number();

}  // namespace cohort::internal
