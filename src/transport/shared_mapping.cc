#include "transport/shared_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/raise.h"
#include "base/system_error.h"

namespace cohort::internal {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kDirectionBytes = (sizeof(SharedDirection) + kPage - 1) / kPage * kPage;
constexpr size_t kMinArena = size_t{64} << 10;
constexpr size_t kMaxArena = size_t{1} << 40;
// Without them another process could cut the file, and reading the mapping would end this one.
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

}  // namespace cohort::internal
