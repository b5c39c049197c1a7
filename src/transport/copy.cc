#include "transport/copy.h"

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace cohort::internal {
namespace {

#if defined(__SSE2__)
// From here on writing past the caches is faster, even for a reader that follows at once.
constexpr size_t kPastCaches = size_t{4} << 20;
constexpr size_t kLine = 64;
constexpr size_t kLanes = kLine / sizeof(__m128i);

// `to` at a multiple of a line, `lines` whole lines.
void stream_lines(std::byte* to, const std::byte* from, size_t lines) {
  for (size_t line = 0; line < lines; ++line, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    __m128i values[kLanes];
    for (size_t i = 0; i < kLanes; ++i) values[i] = _mm_loadu_si128(source + i);
    for (size_t i = 0; i < kLanes; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, values[i]);
  }
  _mm_sfence();
}
#endif

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, size_t size) {
#if defined(__SSE2__)
  if (size >= kPastCaches) {
    const size_t before = -reinterpret_cast<uintptr_t>(to) % kLine;
    std::memcpy(to, from, before);
    const size_t lines = (size - before) / kLine;
    stream_lines(to + before, from + before, lines);
    const size_t done = before + lines * kLine;
    std::memcpy(to + done, from + done, size - done);
    return;
  }
#endif
  if (size > 0) std::memcpy(to, from, size);
}

}  // namespace cohort::internal
