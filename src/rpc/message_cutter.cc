#include <cstring>

#include "base/raise.h"
#include "rpc/chunk_format.h"
#include "rpc/chunks.h"
#include "transport/status_message.h"

namespace cohort::internal {
namespace {

void append_number(std::string& out, uint64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // little-endian, as every supported machine is
  out.append(bytes, sizeof value);
}

std::string beginning_of(const Message& message) {
  std::string text;
  text.reserve(1 + 8 * (2 + message.payloads.size()) + message.header.size());
  text.push_back(static_cast<char>(ChunkKind::Begin));
  append_number(text, message.header.size());
  append_number(text, message.payloads.size());
  for (const Buffer& payload : message.payloads) append_number(text, payload.bytes.size());
  text += message.header;
  return text;
}

Buffer buffer_of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {.bytes = std::as_bytes(std::span(*owner)), .owner = owner};
}

constexpr std::byte kMore{static_cast<uint8_t>(ChunkKind::More)};

}  // namespace

MessageCutter::MessageCutter(Message message) {
  if (message.payloads.size() > kMaxPayloads) {
    raise(Code::ResourceExhausted,
          "[Connection] a message has {} payloads; at most {} are possible",
          message.payloads.size(), kMaxPayloads);
  }
  parts_.reserve(message.payloads.size() + 1);
  parts_.push_back(buffer_of(beginning_of(message)));
  for (Buffer& payload : message.payloads) {
    if (!payload.bytes.empty()) parts_.push_back(std::move(payload));
  }
}

std::vector<Buffer> MessageCutter::next() {
  std::vector<Buffer> chunk;
  size_t room = kChunkBytes;
  if (!begun_) {  // the table of sizes stays in one piece
    begun_ = true;
    chunk.push_back(std::move(parts_[next_++]));
    room -= std::min(room, chunk[0].bytes.size());
  } else {
    chunk.push_back({.bytes = {&kMore, 1}});
  }
  while (room > 0 && !at_end()) {
    const Buffer& part = parts_[next_];
    const auto bytes = part.bytes.subspan(offset_, std::min(room, part.bytes.size() - offset_));
    chunk.push_back({.bytes = bytes, .owner = part.owner});
    room -= bytes.size();
    offset_ += bytes.size();
    if (offset_ == part.bytes.size()) {
      parts_[next_++] = {};
      offset_ = 0;
    }
  }
  return chunk;
}

Buffer close_chunk(const Status& why, std::string_view self) {
  Message fields;
  MessageWriter writer(fields);
  write_status(why, self, writer);
  return buffer_of(std::string(1, static_cast<char>(ChunkKind::Close)) + fields.header);
}

}  // namespace cohort::internal
