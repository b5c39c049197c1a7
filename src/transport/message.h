#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort::internal {

// Bytes and the owner that keeps them alive. Copies share the bytes; the last copy frees them.
struct Buffer {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};
};

// What goes over a connection in one piece: a short header, and payloads of any size, which are not
// copied where the transport allows it. As many payloads arrive as were sent, with the same sizes;
// they are aligned to 64 bytes unless they are the sender's own memory.
struct Message {
  std::string header = {};
  std::vector<Buffer> payloads = {};
};

// Bytes of header and payloads.
inline size_t size_of(const Message& message) {
  size_t bytes = message.header.size();
  for (const Buffer& payload : message.payloads) bytes += payload.bytes.size();
  return bytes;
}

}  // namespace cohort::internal
