#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace cohort::internal {

// Owns a file descriptor and closes it. -1: none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    FileDescriptor old(std::exchange(fd_, std::exchange(other.fd_, -1)));
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  // The caller owns the result.
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// A counter that can be read once another thread, or a signal handler, has added to it. Reading and
// writing do not block, and no child process inherits it. No descriptor, and errno says why, when
// the process has too many open.
inline FileDescriptor make_event() {
  return FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

}  // namespace cohort::internal
