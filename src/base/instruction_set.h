#pragma once

namespace cohort::internal {

#if defined(__x86_64__)
// Whether this machine has the instructions that functions with [[gnu::target("avx2")]] are made
// of. Libraries are built for any machine of their kind, so it is asked when the program runs.
inline bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2") != 0;
  return found;
}
#endif

}  // namespace cohort::internal
