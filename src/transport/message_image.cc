#include "transport/message_image.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/raise.h"
#include "transport/copy.h"
#include "transport/nonsense.h"

namespace cohort::internal {
namespace {

constexpr size_t kAlignment = 64;

// At the start of the meta. The sizes of the payloads follow, 8 bytes each, then the header.
struct Counts {
  uint64_t payloads = 0;
  uint64_t header_bytes = 0;
};

size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

std::byte* append(std::byte* to, const void* from, size_t size) {
  if (size > 0) std::memcpy(to, from, size);
  return to + size;
}

// Systems promise more than they have; who asks for that is up to no good.
size_t memory_of_host() {
  return static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

Counts counts_of(std::span<const std::byte> meta) {
  Counts counts;
  if (meta.size() < sizeof(counts)) raise_nonsense("a message without a beginning");
  std::memcpy(&counts, meta.data(), sizeof(counts));
  const size_t rest = meta.size() - sizeof(counts);
  if (counts.payloads > rest / sizeof(uint64_t) ||
      rest - counts.payloads * sizeof(uint64_t) != counts.header_bytes) {
    raise_nonsense("a message's description is not as long as it says");
  }
  return counts;
}

}  // namespace

MessageImage::MessageImage(Message message) : payloads_(std::move(message.payloads)) {
  const Counts counts{payloads_.size(), message.header.size()};
  meta_.resize(sizeof(counts) + counts.payloads * sizeof(uint64_t) + counts.header_bytes);
  size_ = meta_.size();
  std::byte* next = append(meta_.data(), &counts, sizeof(counts));
  for (const Buffer& payload : payloads_) {
    const uint64_t bytes = payload.bytes.size();
    next = append(next, &bytes, sizeof(bytes));
    if (bytes > 0) size_ = aligned(size_) + bytes;
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
    if (!payload.bytes.empty()) at = aligned(at);
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
    const size_t start = aligned(end);
    if (start > image.bytes.size() || size > image.bytes.size() - start) {
      raise_nonsense("a payload that is longer than its message");
    }
    message.payloads[i] = {image.bytes.subspan(start, size), image.owner};
    end = start + size;
  }
  return message;
}

WritableImage allocate_image(size_t size) {
  std::byte* data = nullptr;
  if (size <= memory_of_host()) {
    data = static_cast<std::byte*>(
        ::operator new(std::max<size_t>(size, 1), std::align_val_t(kAlignment), std::nothrow));
  }
  if (data == nullptr) {
    raise(Code::ResourceExhausted, "[Connection] no memory for a message of {} bytes", size);
  }
  std::shared_ptr<std::byte> owner(
      data, [](std::byte* memory) { ::operator delete(memory, std::align_val_t(kAlignment)); });
  return {data, {{data, size}, std::move(owner)}};
}

}  // namespace cohort::internal
