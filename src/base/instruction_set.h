#pragma once

namespace cohort::internal {

#if defined(__x86_64__)
// Whether this machine can run functions with [[gnu::target("avx2")]]. Libraries are built for any
// x86-64 machine, so the program asks when it runs.
inline bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2") != 0;
  return found;
}
#endif

}  // namespace cohort::internal
