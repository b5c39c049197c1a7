#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

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

}  // namespace cohort::internal
