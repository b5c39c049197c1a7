#include "transport/message_image.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/memory_limit.h"

namespace cohort::internal {
namespace {

// At the start of the meta. The sizes of the payloads follow, 8 bytes each, then the header.
struct Counts {
  uint64_t payloads = 0;
  uint64_t header_bytes = 0;
};

std::byte* append(std::byte* to, const void* from, size_t size) {
  if (size > 0) std::memcpy(to, from, size);
  return to + size;
}

Counts counts_of(std::span<const std::byte> meta) {
  Counts counts;
  if (meta.size() < sizeof(counts)) raise_malformed("a message without a beginning");
  std::memcpy(&counts, meta.data(), sizeof(counts));
  const size_t rest = meta.size() - sizeof(counts);
  if (counts.payloads > rest / sizeof(uint64_t) ||
      rest - counts.payloads * sizeof(uint64_t) != counts.header_bytes) {
    raise_malformed("a message's description is not as long as it says");
  }
  return counts;
}

#if defined(__SSE2__)
// From this size on writing past the caches is faster, even for a reader that follows at once.
constexpr size_t kPastCaches = size_t{4} << 20;
constexpr size_t kLine = 64;
constexpr size_t kLanes = kLine / sizeof(__m128i);

// `to` is at a multiple of a cache line.
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

MessageImage::MessageImage(Message message) : payloads_(std::move(message.payloads)) {
  const Counts counts{payloads_.size(), message.header.size()};
  meta_.resize(sizeof(counts) + counts.payloads * sizeof(uint64_t) + counts.header_bytes);
  size_ = meta_.size();
  std::byte* next = append(meta_.data(), &counts, sizeof(counts));
  for (const Buffer& payload : payloads_) {
    const uint64_t bytes = payload.bytes.size();
    next = append(next, &bytes, sizeof(bytes));
    if (bytes > 0) size_ = aligned_size(size_) + bytes;
  }
  append(next, message.header.data(), message.header.size());
}

void MessageImage::copy_out(size_t from, std::span<std::byte> to) const {
  const size_t end = from + to.size();
  size_t at = 0;  // of the next part in the image
  const auto copy_part = [&](std::span<const std::byte> part) {
    const size_t first = std::max(at, from);
    const size_t last = std::min(at + part.size(), end);
    if (first < last)
      copy_bytes(to.data() + (first - from), part.data() + (first - at), last - first);
    at += part.size();
  };
  copy_part(meta_);
  for (const Buffer& payload : payloads_) {
    if (at >= end) return;
    if (!payload.bytes.empty()) at = aligned_size(at);
    copy_part(payload.bytes);
  }
}

Message open_image(std::span<const std::byte> meta, const Buffer& image) {
  const Counts counts = counts_of(meta);
  const std::byte* sizes = meta.data() + sizeof(counts);
  const std::byte* header = sizes + counts.payloads * sizeof(uint64_t);
  Message message{std::string(reinterpret_cast<const char*>(header), counts.header_bytes)};
  message.payloads.resize(counts.payloads);
  size_t end = meta.size();
  for (size_t i = 0; i < counts.payloads; ++i) {
    uint64_t size = 0;
    std::memcpy(&size, sizes + i * sizeof(size), sizeof(size));
    if (size == 0) continue;
    const size_t start = aligned_size(end);
    if (start > image.bytes.size() || size > image.bytes.size() - start) {
      raise_malformed("a payload that is longer than its message");
    }
    message.payloads[i] = {image.bytes.subspan(start, size), image.owner};
    end = start + size;
  }
  return message;
}

std::shared_ptr<std::byte> allocate_payload(size_t size) {
  constexpr size_t kSmall = size_t{1} << 20;  // every host has that much
  std::shared_ptr<std::byte> memory;
  // The system promises more memory than it has. A message of that size is an attack or a defect.
  if (size <= kSmall || size <= memory_limit()) memory = allocate_aligned(size);
  if (memory == nullptr) {
    raise(Code::ResourceExhausted, "[Connection] no memory for a message of {} bytes", size);
  }
  return memory;
}

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
