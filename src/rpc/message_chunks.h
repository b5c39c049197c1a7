#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/connection.h"

namespace cohort::internal {

// How messages and the end of a connection are written into a stream of chunks: pieces of about a
// megabyte, so that messages have no largest size and many connections share a wire. A chunk holds
// the beginning of a message (its sizes, its header, as many payload bytes as fit), more bytes of
// the message, or the reason why the sender closed the connection.
inline constexpr size_t kChunkBytes = size_t{1} << 20;
// Of one received chunk. More than kChunkBytes, because the table of sizes is never cut.
inline constexpr size_t kMaxChunkBytes = size_t{8} << 20;
inline constexpr size_t kMaxPayloads = size_t{1} << 19;

// The first byte of a chunk. After Begin follow, as 8 bytes each: the length of the header, the
// number of payloads, the length of each payload; then the header and the beginning of the
// payloads.
enum class ChunkKind : uint8_t { Begin = 1, More = 2, Close = 3 };

// Cuts one message into chunks. The chunks refer to the payloads' memory.
class MessageCutter {
 public:
  // Throws ResourceExhausted for more payloads than kMaxPayloads.
  explicit MessageCutter(Message message);

  bool at_end() const { return next_ == parts_.size(); }
  // The next chunk, in pieces.
  std::vector<Buffer> next();

 private:
  std::vector<Buffer> parts_;  // what is to be sent, in order
  size_t next_ = 0;            // the part in which the next chunk begins
  size_t offset_ = 0;          // in that part
  bool begun_ = false;
};

// The chunk that ends a connection. `self` is the sender.
Buffer close_chunk(const Status& why, std::string_view self);

// Memory for arriving messages, aligned to 64 bytes. Large blocks are kept and used again: fresh
// pages cost more than copying into old ones. Thread-safe.
class BlockPool {
 public:
  // Keeps at most that many bytes that are not in use.
  explicit BlockPool(size_t kept_bytes);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();  // the blocks may outlive the pool

  // Throws ResourceExhausted.
  std::shared_ptr<std::byte> allocate(size_t size);

 private:
  class FreeBlocks;
  std::shared_ptr<FreeBlocks> free_;  // shared with the blocks
};

// Puts messages together. Trusts nothing: malformed chunks throw DataLoss, and memory for a payload
// is allocated when its first bytes arrive.
class MessageAssembler {
 public:
  using Piece = std::span<const std::byte>;
  struct Arrived {
    std::optional<Message> message = {};
    std::optional<Status> closed = {};  // why the sender closed; nothing follows
  };

  // Takes a chunk and returns what the chunk completes.
  Arrived add(std::span<const Piece> chunk);

 private:
  class Cursor;
  void begin(Cursor& chunk);
  void fill(Cursor& chunk);
  void make_room();
  std::optional<Message> take_if_complete();

  static constexpr size_t kKeptBytes = size_t{128} << 20;

  BlockPool pool_{kKeptBytes};
  bool open_ = false;  // a message has begun and is not complete
  Message message_;
  std::vector<uint64_t> sizes_;              // of its payloads
  uint64_t header_bytes_ = 0;                // of its header, in total
  std::span<std::byte> room_;                // the rest of the payload that is being filled
  std::shared_ptr<std::byte> shared_block_;  // memory of the payloads of a small message
  size_t shared_used_ = 0;
};

}  // namespace cohort::internal
