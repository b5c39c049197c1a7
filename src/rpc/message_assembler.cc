#include <cstring>

#include "base/raise.h"
#include "rpc/chunk_format.h"
#include "rpc/chunks.h"
#include "transport/status_message.h"

namespace cohort::internal {
namespace {

constexpr size_t kAlignment = 64;
constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 42;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 31;
// Payloads of a message that is smaller share one block of memory.
constexpr uint64_t kMaxSharedBytes = uint64_t{1} << 20;

size_t aligned(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

[[noreturn]] void fail(std::string_view problem) {
  raise(Code::DataLoss, "[Connection] the other side sent what is no message: {}", problem);
}

}  // namespace

// Reads a chunk that lies in pieces.
class MessageAssembler::Cursor {
 public:
  explicit Cursor(std::span<const Piece> pieces) : pieces_(pieces) {
    for (const Piece& piece : pieces) left_ += piece.size();
  }

  size_t left() const { return left_; }

  void read(std::span<std::byte> to) {
    if (to.size() > left_) fail("a chunk is too short");
    left_ -= to.size();
    while (!to.empty()) {
      const Piece rest = pieces_.front().subspan(offset_);
      const size_t count = std::min(rest.size(), to.size());
      if (count > 0) std::memcpy(to.data(), rest.data(), count);
      to = to.subspan(count);
      advance(count);
    }
  }

  uint64_t number() {
    uint64_t value = 0;
    read(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  void advance(size_t count) {
    offset_ += count;
    if (offset_ == pieces_.front().size()) {
      pieces_ = pieces_.subspan(1);
      offset_ = 0;
    }
  }

  std::span<const Piece> pieces_;
  size_t offset_ = 0;  // in the first one
  size_t left_ = 0;
};

MessageAssembler::Arrived MessageAssembler::add(std::span<const Piece> pieces) {
  Cursor chunk(pieces);
  std::byte kind{};
  chunk.read({&kind, 1});
  switch (static_cast<ChunkKind>(kind)) {
    case ChunkKind::Begin:
      begin(chunk);
      break;
    case ChunkKind::More:
      if (!open_) fail("a chunk continues nothing");
      break;
    case ChunkKind::Close: {
      Message fields;
      fields.header.resize(chunk.left());
      chunk.read(std::as_writable_bytes(std::span(fields.header)));
      MessageReader reader(fields, "the reason why a connection ends");
      return {.closed = read_status(reader)};
    }
    default:
      fail("a chunk is of no known kind");
  }
  fill(chunk);
  return {.message = take_if_complete()};
}

void MessageAssembler::begin(Cursor& chunk) {
  if (open_) fail("a message begins before the last one is complete");
  header_bytes_ = chunk.number();
  const uint64_t count = chunk.number();
  if (header_bytes_ > kMaxHeaderBytes) fail("a header is too long");
  if (count > kMaxPayloads || count * 8 > chunk.left()) fail("a table of payloads is too long");
  sizes_.resize(count);
  chunk.read(std::as_writable_bytes(std::span(sizes_)));
  uint64_t total = 0;
  uint64_t in_blocks = 0;
  for (const uint64_t size : sizes_) {
    if (size > kMaxMessageBytes - total) fail("it is too long");
    total += size;
    in_blocks += aligned(size);
  }
  open_ = true;
  message_ = {};
  message_.payloads.reserve(count);
  room_ = {};
  shared_used_ = 0;
  shared_block_ = in_blocks <= kMaxSharedBytes ? pool_.allocate(in_blocks) : nullptr;
}

void MessageAssembler::make_room() {
  const size_t size = sizes_[message_.payloads.size()];
  Buffer payload;
  std::byte* memory = nullptr;
  if (shared_block_) {
    memory = shared_block_.get() + shared_used_;
    shared_used_ += aligned(size);
    payload.owner = shared_block_;
  } else {
    const auto block = pool_.allocate(size);
    memory = block.get();
    payload.owner = block;
  }
  payload.bytes = {memory, size};
  room_ = {memory, size};
  message_.payloads.push_back(std::move(payload));
}

void MessageAssembler::fill(Cursor& chunk) {
  if (const size_t have = message_.header.size(); have < header_bytes_) {
    const size_t count = std::min<uint64_t>(header_bytes_ - have, chunk.left());
    message_.header.resize(have + count);
    chunk.read(std::as_writable_bytes(std::span(message_.header).subspan(have)));
  }
  while (chunk.left() > 0) {
    if (room_.empty() && message_.payloads.size() == sizes_.size()) fail("a chunk is too long");
    if (room_.empty()) make_room();
    const size_t count = std::min(room_.size(), chunk.left());
    chunk.read(room_.first(count));
    room_ = room_.subspan(count);
  }
}

std::optional<Message> MessageAssembler::take_if_complete() {
  if (message_.header.size() < header_bytes_ || !room_.empty()) return std::nullopt;
  // Empty payloads at the end have no bytes that would make room for them.
  while (message_.payloads.size() < sizes_.size() && sizes_[message_.payloads.size()] == 0) {
    make_room();
  }
  if (message_.payloads.size() < sizes_.size()) return std::nullopt;
  open_ = false;
  shared_block_ = nullptr;
  return std::move(message_);
}

}  // namespace cohort::internal
