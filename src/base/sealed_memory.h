#pragma once

#include <cstddef>
#include <span>

#include "base/file_descriptor.h"

namespace cohort::internal {

// Memory that several processes map. It has no name in any file system, so nothing is left of it
// when they end. Its size is sealed: no process can cut it while another process reads.
class SealedMemory {
 public:
  enum class Pages {
    AtOnce,  // the system reserves all pages, so that no later write ends the process
    OnUse,   // the first write to a page takes it from the system
  };

  // Zeroed. Throws ResourceExhausted if the system does not have that much memory.
  SealedMemory(size_t bytes, Pages pages);
  // Maps memory that another process made. `bytes` is its sealed_size().
  SealedMemory(FileDescriptor memory, size_t bytes);
  ~SealedMemory();

  std::span<std::byte> bytes() const { return bytes_; }
  int descriptor() const { return memory_.get(); }
  // The memory stays mapped, but cannot be passed to another process any more.
  void forget_descriptor() { memory_ = FileDescriptor(); }

 private:
  FileDescriptor memory_;
  std::span<std::byte> bytes_;
};

// Throws DataLoss if the descriptor is not that of memory whose size is sealed.
size_t sealed_size(const FileDescriptor& memory);

}  // namespace cohort::internal
