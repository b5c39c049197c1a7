#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/aligned_memory.h"
#include "base/raise.h"
#include "transport/message.h"

namespace cohort::internal {

// Payloads in memory, and images, begin at multiples of kMemoryAlignment.
constexpr size_t aligned_size(size_t size) {
  return (size + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

// A message as one run of bytes, for transports that carry bytes: first its description (the
// "meta": the payloads' sizes and the header), then the payloads, each at a multiple of 64 bytes.
class MessageImage {
 public:
  // Keeps the payloads.
  explicit MessageImage(Message message);

  size_t size() const { return size_; }
  size_t meta_size() const { return meta_.size(); }
  // Copies bytes [from, from + to.size()) of the image. The gaps between payloads are left as they
  // are in `to`.
  void copy_out(size_t from, std::span<std::byte> to) const;

 private:
  std::vector<std::byte> meta_;
  std::vector<Buffer> payloads_;
  size_t size_ = 0;
};

// The message whose image is `image`; the payloads share its owner. `meta` is a copy of the
// description that the other process cannot change. Throws DataLoss when a payload would lie
// outside the image.
Message open_image(std::span<const std::byte> meta, const Buffer& image);

// Fresh memory, aligned to 64 bytes. Throws ResourceExhausted.
std::shared_ptr<std::byte> allocate_payload(size_t size);

// memcpy for memory that another core reads next: a copy larger than the caches bypasses them.
void copy_bytes(std::byte* to, const std::byte* from, size_t size);

// For bytes that no process of ours would write or send.
[[noreturn]] inline void raise_malformed(std::string_view what) {
  raise(Code::DataLoss, "[Connection] the other side sent malformed data: {}", what);
}

}  // namespace cohort::internal
