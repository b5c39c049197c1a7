#include "base/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/memory_limit.h"
#include "base/raise.h"

namespace cohort::internal {
namespace {

// Without these seals another process could cut the memory, and reading it would end this process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Returns 0 or the number of the error.
int set_size(const FileDescriptor& memory, off_t bytes, SealedMemory::Pages pages) {
  if (pages == SealedMemory::Pages::OnUse) {
    return ::ftruncate(memory.get(), bytes) == 0 ? 0 : errno;
  }
  // Linux does not check the size of a memfd. It reserves pages until the machine has no more, and
  // then kills processes.
  if (static_cast<size_t>(bytes) > physical_memory()) return ENOMEM;
  // A signal interrupts the call, whatever its handler says.
  int error = 0;
  do {
    error = ::posix_fallocate(memory.get(), 0, bytes);
  } while (error == EINTR);
  return error;
}

FileDescriptor make_sealed(size_t bytes, SealedMemory::Pages pages) {
  FileDescriptor memory(::memfd_create("cohort", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  int error = memory ? set_size(memory, static_cast<off_t>(bytes), pages) : errno;
  if (error == 0 && ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) error = errno;
  if (error == 0) return memory;
  raise(Code::ResourceExhausted, "[SharedMemory] cannot create {} bytes of sealed memory: {}",
        bytes, errno_text(error));
}

}  // namespace

SealedMemory::SealedMemory(size_t bytes, Pages pages)
    : SealedMemory(make_sealed(bytes, pages), bytes) {}

SealedMemory::SealedMemory(FileDescriptor memory, size_t bytes) : memory_(std::move(memory)) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (start == MAP_FAILED) {
    raise(Code::ResourceExhausted, "[SharedMemory] cannot map {} bytes: {}", bytes,
          errno_text(errno));
  }
  bytes_ = {static_cast<std::byte*>(start), bytes};
  ::madvise(start, bytes, MADV_HUGEPAGE);  // where the system is set up for it
}

SealedMemory::~SealedMemory() { ::munmap(bytes_.data(), bytes_.size()); }

size_t sealed_size(const FileDescriptor& memory) {
  struct stat about {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (::fstat(memory.get(), &about) != 0 || seals < 0 || (seals & kSeals) != kSeals) {
    raise(Code::DataLoss, "[SharedMemory] the memory offered is not sealed: its size could change");
  }
  return static_cast<size_t>(about.st_size);
}

}  // namespace cohort::internal
