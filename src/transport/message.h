#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cohort::internal {

// Bytes that somebody keeps alive. Copies share them; the last one lets go of the memory.
struct Buffer {
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};
};

// What goes over a connection in one piece: a short header, and beside it payloads of any size,
// which are not copied where the way allows it. Payloads arrive as they were sent: as many, as
// long; aligned to 64 bytes unless they are the sender's own memory.
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
