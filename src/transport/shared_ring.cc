#include "transport/shared_ring.h"

#include <algorithm>
#include <cstring>

#include "transport/nonsense.h"

namespace cohort::internal {
namespace {

constexpr size_t kSize = SharedDirection::kRingBytes;
using Length = uint64_t;  // before every body

// What a record takes: so positions stay multiples of this, and a length never wraps around.
size_t padded(size_t body_bytes) {
  return (sizeof(Length) + body_bytes + sizeof(Length) - 1) / sizeof(Length) * sizeof(Length);
}

}  // namespace

bool RingWriter::has_room(size_t body_bytes) const {
  const uint64_t used = tail_ - shared_.head.load();
  if (used > kSize) raise_nonsense("it has taken more than was sent");
  return kSize - used >= padded(body_bytes);
}

void RingWriter::write(std::span<const std::byte> body) {
  const Length length = body.size();
  std::memcpy(shared_.ring + tail_ % kSize, &length, sizeof(length));
  const size_t at = (tail_ + sizeof(length)) % kSize;
  const size_t before_end = std::min(body.size(), kSize - at);
  std::copy_n(body.begin(), before_end, shared_.ring + at);
  std::copy(body.begin() + before_end, body.end(), shared_.ring);
  tail_ += padded(body.size());
  shared_.tail.store(tail_);
}

bool RingReader::has_record() const {
  return shared_.tail.load() != head_.load(std::memory_order_relaxed);
}

void RingReader::copy_out(uint64_t from, std::span<std::byte> to) const {
  const size_t at = from % kSize;
  const size_t before_end = std::min(to.size(), kSize - at);
  std::copy_n(shared_.ring + at, before_end, to.begin());
  std::copy_n(shared_.ring, to.size() - before_end, to.begin() + before_end);
}

bool RingReader::read(std::vector<std::byte>& body) {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t available = shared_.tail.load(std::memory_order_acquire) - head;
  if (available == 0) return false;
  if (available > kSize || available < sizeof(Length)) raise_nonsense("a position in the ring");
  Length length = 0;
  copy_out(head, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxRecordBody || padded(length) > available) raise_nonsense("a record's length");
  body.resize(length);
  copy_out(head + sizeof(Length), body);
  head_.store(head + padded(length), std::memory_order_relaxed);
  shared_.head.store(head + padded(length));
  return true;
}

}  // namespace cohort::internal
