#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rpc/block_pool.h"
#include "transport/connection.h"

namespace cohort::internal {

// How messages and the end of a connection are written into a stream of chunks: pieces of about a
// megabyte, so that messages have no largest size and many connections share a wire. A chunk holds
// the beginning of a message (its sizes, its header, as many payload bytes as fit), more bytes of
// it, or the reason why the sender closed the connection.
inline constexpr size_t kChunkBytes = size_t{1} << 20;
// Of one chunk, as received. More than is sent: the table of sizes is never cut.
inline constexpr size_t kMaxChunkBytes = size_t{8} << 20;
inline constexpr size_t kMaxPayloads = size_t{1} << 19;

// Cuts one message into chunks. The chunks refer to the payloads' memory.
class MessageCutter {
 public:
  // ResourceExhausted for more payloads than kMaxPayloads.
  explicit MessageCutter(Message message);

  bool at_end() const { return next_ == parts_.size(); }
  // The next chunk, in pieces.
  std::vector<Buffer> next();

 private:
  std::vector<Buffer> parts_;  // what is to be sent, in order
  size_t next_ = 0;            // the part that the next chunk begins in,
  size_t offset_ = 0;          // and where in it
  bool begun_ = false;
};

// The chunk that ends a connection. `self` is the sender.
Buffer close_chunk(const Status& why, std::string_view self);

// Puts messages together. Trusts nothing: what does not fit together throws DataLoss, and memory is
// taken for a payload when its first bytes are there.
class MessageAssembler {
 public:
  using Piece = std::span<const std::byte>;
  struct Arrived {
    std::optional<Message> message = {};
    std::optional<Status> closed = {};  // the sender closes; nothing comes any more
  };

  // Takes a chunk. What it completes.
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
  std::span<std::byte> room_;                // what is left of the payload that is being filled
  std::shared_ptr<std::byte> shared_block_;  // memory of the payloads of a small message
  size_t shared_used_ = 0;
};

}  // namespace cohort::internal
