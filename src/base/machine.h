#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <thread>

namespace cohort::internal {

// The alignment of payloads in bytes: a cache line, and more than the widest vector needs.
inline constexpr size_t kMemoryAlignment = 64;

// Fresh memory for `size` bytes that begins at a multiple of kMemoryAlignment; null when there is
// not enough.
inline std::shared_ptr<std::byte> allocate_aligned(size_t size) {
  constexpr std::align_val_t kAlignment{kMemoryAlignment};
  auto* const memory =
      static_cast<std::byte*>(::operator new(std::max<size_t>(size, 1), kAlignment, std::nothrow));
  if (memory == nullptr) return nullptr;
  return {memory, [](std::byte* from) { ::operator delete(from, kAlignment); }};
}

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

// 64 bits of the system's random source, for seeds, identities and names that must not repeat.
inline uint64_t random_number() {
  std::random_device source;
  return (uint64_t{source()} << 32) | source();
}

}  // namespace cohort::internal
