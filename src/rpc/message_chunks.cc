#include "rpc/message_chunks.h"

#include <sys/mman.h>

#include <cstring>
#include <map>

#include "base/mutex.h"
#include "base/raise.h"
#include "transport/message_codec.h"
#include "transport/message_image.h"

namespace cohort::internal {
namespace {

constexpr uint64_t kMaxMessageBytes = uint64_t{1} << 42;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 31;
// The payloads of a smaller message share one block of memory.
constexpr uint64_t kMaxSharedBytes = uint64_t{1} << 20;

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

// Smaller blocks come from the C library.
constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr size_t kPageBytes = size_t{2} << 20;  // a huge page

[[noreturn]] void raise_no_memory(size_t size) {
  raise(Code::ResourceExhausted, "[Connection] no memory for a payload of {} bytes", size);
}

std::byte* map(size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) raise_no_memory(size);
  madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

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
  MessageWriter(fields, self)(why);
  return buffer_of(std::string(1, static_cast<char>(ChunkKind::Close)) + fields.header);
}

// The blocks that are not in use, by size.
class BlockPool::FreeBlocks {
 public:
  explicit FreeBlocks(size_t limit) : limit_(limit) {}
  ~FreeBlocks() {
    for (const auto& [size, block] : blocks_) munmap(block, size);
  }

  // A block of `size` to twice that, or null.
  std::byte* take(size_t& size) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.lower_bound(size);
    if (found == blocks_.end() || found->first > 2 * size) return nullptr;
    size = found->first;
    std::byte* const block = found->second;
    blocks_.erase(found);
    bytes_ -= size;
    return block;
  }
  void put_back(std::byte* block, size_t size) {
    {
      const std::lock_guard lock(mutex_);
      if (bytes_ + size <= limit_) {
        blocks_.emplace(size, block);
        bytes_ += size;
        return;
      }
    }
    munmap(block, size);
  }

 private:
  const size_t limit_;
  Mutex mutex_;
  std::multimap<size_t, std::byte*> blocks_;  // guarded by mutex_
  size_t bytes_ = 0;                          // guarded by mutex_
};

BlockPool::BlockPool(size_t kept_bytes) : free_(std::make_shared<FreeBlocks>(kept_bytes)) {}
BlockPool::~BlockPool() = default;

std::shared_ptr<std::byte> BlockPool::allocate(size_t size) {
  if (size < kLargeBytes) return allocate_payload(size);
  if (size > SIZE_MAX - kPageBytes) raise_no_memory(size);
  size_t mapped = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
  std::byte* block = free_->take(mapped);
  if (block == nullptr) block = map(mapped);
  return {block, [free = free_, mapped](std::byte* from) { free->put_back(from, mapped); }};
}

// Reads a chunk that lies in pieces.
class MessageAssembler::Cursor {
 public:
  explicit Cursor(std::span<const Piece> pieces) : pieces_(pieces) {
    for (const Piece& piece : pieces) left_ += piece.size();
  }

  size_t left() const { return left_; }

  void read(std::span<std::byte> to) {
    if (to.size() > left_) raise_malformed("a chunk is too short");
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
  size_t offset_ = 0;  // in the first piece
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
      if (!open_) raise_malformed("a chunk continues nothing");
      break;
    case ChunkKind::Close: {
      Message fields;
      fields.header.resize(chunk.left());
      chunk.read(std::as_writable_bytes(std::span(fields.header)));
      MessageReader reader(fields, "the reason why a connection ends");
      return {.closed = decode_next<Status>(reader)};
    }
    default:
      raise_malformed("a chunk is of no known kind");
  }
  fill(chunk);
  return {.message = take_if_complete()};
}

void MessageAssembler::begin(Cursor& chunk) {
  if (open_) raise_malformed("a message begins before the last one is complete");
  header_bytes_ = chunk.number();
  const uint64_t count = chunk.number();
  if (header_bytes_ > kMaxHeaderBytes) raise_malformed("a header is too long");
  if (count > kMaxPayloads || count * 8 > chunk.left())
    raise_malformed("a table of payloads is too long");
  sizes_.resize(count);
  chunk.read(std::as_writable_bytes(std::span(sizes_)));
  uint64_t total = 0;
  uint64_t in_blocks = 0;
  for (const uint64_t size : sizes_) {
    if (size > kMaxMessageBytes - total) raise_malformed("it is too long");
    total += size;
    in_blocks += aligned_size(size);
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
    shared_used_ += aligned_size(size);
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
    if (room_.empty() && message_.payloads.size() == sizes_.size())
      raise_malformed("a chunk is too long");
    if (room_.empty()) make_room();
    const size_t count = std::min(room_.size(), chunk.left());
    chunk.read(room_.first(count));
    room_ = room_.subspan(count);
  }
}

std::optional<Message> MessageAssembler::take_if_complete() {
  if (message_.header.size() < header_bytes_ || !room_.empty()) return std::nullopt;
  // Empty payloads at the end have no bytes in the chunk.
  while (message_.payloads.size() < sizes_.size() && sizes_[message_.payloads.size()] == 0) {
    make_room();
  }
  if (message_.payloads.size() < sizes_.size()) return std::nullopt;
  open_ = false;
  shared_block_ = nullptr;
  return std::move(message_);
}

}  // namespace cohort::internal
