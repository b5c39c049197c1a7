#pragma once

#include <thread>

namespace cohort::internal {

#if defined(__x86_64__)
// Whether this machine can run functions with [[gnu::target("avx2")]]. Libraries are built for any
// x86-64 machine, so the program asks when it runs.
inline bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2") != 0;
  return found;
}
#endif

// How many cores this process may use; 0 if the system does not say. Asking the system opens a
// file, which takes 4 us: as long as a whole reduction of a few numbers.
inline unsigned core_count() {
  static const unsigned count = std::thread::hardware_concurrency();
  return count;
}

}  // namespace cohort::internal
