#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/message.h"

namespace cohort::internal {

// A message as one run of bytes, for ways that carry bytes: first what describes it (its "meta":
// the payloads' sizes and the header), then the payloads, each at a multiple of 64 bytes.
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

// The message whose image begins at image.bytes; the payloads share its owner. `meta` is a copy of
// its description that nobody can change any more. Throws DataLoss when a part of it would lie
// outside of the image.
Message open_image(std::span<const std::byte> meta, const Buffer& image);

// Fresh memory for an image, aligned to 64 bytes. Throws ResourceExhausted.
struct WritableImage {
  std::byte* data = nullptr;
  Buffer image = {};
};
WritableImage allocate_image(size_t size);

}  // namespace cohort::internal
