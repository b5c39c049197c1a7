#include "collectives/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/raise.h"
#include "base/system_error.h"

namespace cohort::internal {

void SegmentName::write(MessageWriter& writer) const {
  writer.number(pid).number(descriptor).number(inode).number(bytes);
}

SegmentName SegmentName::read(MessageReader& reader) {
  SegmentName name;
  name.pid = reader.number(INT32_MAX);
  name.descriptor = reader.number(INT32_MAX);
  name.inode = reader.number();
  name.bytes = reader.number(INT64_MAX);
  return name;
}

SharedSegment::SharedSegment(int descriptor, size_t bytes)
    : descriptor_(descriptor), bytes_(bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    const std::string why = errno_text(errno);
    hide();
    raise(Code::ResourceExhausted, "[SharedMemory] {} bytes can not be mapped: {}", bytes, why);
  }
  data_ = static_cast<std::byte*>(mapped);
  madvise(data_, bytes_, MADV_HUGEPAGE);  // where the system has some for this
}

SharedSegment::~SharedSegment() {
  hide();
  munmap(data_, bytes_);
}

std::shared_ptr<SharedSegment> SharedSegment::create(size_t bytes) {
  const int descriptor = memfd_create("cohort", MFD_CLOEXEC);
  if (descriptor < 0) raise(Code::ResourceExhausted, "[SharedMemory] {}", errno_text(errno));
  // All of it at once: what is missing later would end the process.
  if (const int error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes))) {
    close(descriptor);
    raise(Code::ResourceExhausted, "[SharedMemory] there are no {} bytes: {}", bytes,
          errno_text(error));
  }
  return std::shared_ptr<SharedSegment>(new SharedSegment(descriptor, bytes));
}

std::shared_ptr<SharedSegment> SharedSegment::open(const SegmentName& name) {
  const std::string path = fmt::format("/proc/{}/fd/{}", name.pid, name.descriptor);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    const int error = errno;
    raise(code_of_errno(error), "[SharedMemory] {} can not be opened: {}", path, errno_text(error));
  }
  struct stat found {};
  if (fstat(descriptor, &found) != 0 || found.st_ino != name.inode ||
      static_cast<uint64_t>(found.st_size) != name.bytes) {
    close(descriptor);
    raise(Code::FailedPrecondition, "[SharedMemory] {} is not the segment that was meant", path);
  }
  return std::shared_ptr<SharedSegment>(new SharedSegment(descriptor, name.bytes));
}

SegmentName SharedSegment::name() const {
  struct stat own {};
  fstat(descriptor_, &own);
  return {static_cast<uint64_t>(getpid()), static_cast<uint64_t>(descriptor_), own.st_ino, bytes_};
}

void SharedSegment::hide() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

}  // namespace cohort::internal
