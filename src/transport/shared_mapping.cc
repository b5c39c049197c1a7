#include "transport/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/raise.h"
#include "transport/message_image.h"

namespace cohort::internal {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDirectionBytes = (sizeof(SharedDirection) + kPage - 1) / kPage * kPage;
constexpr size_t kMinArena = size_t{64} << 10;
constexpr size_t kMaxArena = size_t{1} << 40;
// Without these seals another process could cut the file, and reading the mapping would end this
// process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<uint64_t>::is_always_lock_free);

size_t file_bytes(size_t arena_bytes) { return 2 * (kDirectionBytes + arena_bytes); }

size_t checked_size(const FileDescriptor& memory) {
  struct stat about {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (::fstat(memory.get(), &about) != 0 || seals < 0 || (seals & kSeals) != kSeals) {
    raise(Code::DataLoss, "[SharedMemory] the memory offered is not sealed: its size could change");
  }
  const auto size = static_cast<size_t>(about.st_size);
  if (size < file_bytes(kMinArena) || size > file_bytes(kMaxArena) || size % (2 * kPage) != 0) {
    raise(Code::DataLoss,
          "[SharedMemory] the memory offered has {} bytes, which is no size of ours", size);
  }
  return size;
}

constexpr size_t kRingBytes = SharedDirection::kRingBytes;
using Length = uint64_t;  // stands before every body

// What a record takes. Positions stay multiples of a Length, so that a length never wraps around.
size_t padded(size_t body_bytes) {
  return (sizeof(Length) + body_bytes + sizeof(Length) - 1) / sizeof(Length) * sizeof(Length);
}

}  // namespace

SharedMapping::SharedMapping(size_t arena_bytes)
    : memory_(::memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  arena_bytes = std::clamp((arena_bytes + kPage - 1) / kPage * kPage, kMinArena, kMaxArena);
  const size_t bytes = file_bytes(arena_bytes);
  if (!memory_ || ::ftruncate(memory_.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory_.get(), F_ADD_SEALS, kSeals) != 0) {
    raise(Code::ResourceExhausted, "[SharedMemory] no memory of {} bytes: {}", bytes,
          errno_text(errno));
  }
  map(bytes);
}

SharedMapping::SharedMapping(FileDescriptor memory) : memory_(std::move(memory)) {
  map(checked_size(memory_));
}

SharedMapping::~SharedMapping() { ::munmap(bytes_.data(), bytes_.size()); }

void SharedMapping::map(size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (start == MAP_FAILED) {
    raise(Code::ResourceExhausted, "[SharedMemory] no address space of {} bytes: {}", bytes,
          errno_text(errno));
  }
  bytes_ = {static_cast<std::byte*>(start), bytes};
  ::madvise(start, bytes, MADV_DONTDUMP);
  ::madvise(start, bytes, MADV_HUGEPAGE);  // where the system is set up for it
}

SharedDirection& SharedMapping::direction(int index) const {
  return *reinterpret_cast<SharedDirection*>(bytes_.data() + index * kDirectionBytes);
}

std::span<std::byte> SharedMapping::arena(int index) const {
  const size_t size = bytes_.size() / 2 - kDirectionBytes;
  return bytes_.subspan(2 * kDirectionBytes + index * size, size);
}

bool RingWriter::has_room(size_t body_bytes) const {
  const uint64_t used = tail_ - shared_.head.load();
  if (used > kRingBytes) raise_malformed("it has taken more than was sent");
  return kRingBytes - used >= padded(body_bytes);
}

void RingWriter::write(std::span<const std::byte> body) {
  const Length length = body.size();
  std::memcpy(shared_.ring + tail_ % kRingBytes, &length, sizeof(length));
  const size_t at = (tail_ + sizeof(length)) % kRingBytes;
  const size_t before_end = std::min(body.size(), kRingBytes - at);
  std::copy_n(body.begin(), before_end, shared_.ring + at);
  std::copy(body.begin() + before_end, body.end(), shared_.ring);
  tail_ += padded(body.size());
  shared_.tail.store(tail_);
}

bool RingReader::has_record() const {
  return shared_.tail.load() != head_.load(std::memory_order_relaxed);
}

void RingReader::copy_out(uint64_t from, std::span<std::byte> to) const {
  const size_t at = from % kRingBytes;
  const size_t before_end = std::min(to.size(), kRingBytes - at);
  std::copy_n(shared_.ring + at, before_end, to.begin());
  std::copy_n(shared_.ring, to.size() - before_end, to.begin() + before_end);
}

bool RingReader::read(std::vector<std::byte>& body) {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t available = shared_.tail.load(std::memory_order_acquire) - head;
  if (available == 0) return false;
  if (available > kRingBytes || available < sizeof(Length))
    raise_malformed("a position in the ring");
  Length length = 0;
  copy_out(head, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxRecordBody || padded(length) > available) raise_malformed("a record's length");
  body.resize(length);
  copy_out(head + sizeof(Length), body);
  head_.store(head + padded(length), std::memory_order_relaxed);
  shared_.head.store(head + padded(length));
  return true;
}

}  // namespace cohort::internal
