#pragma once

#include <cstddef>
#include <memory>

#include "base/file_descriptor.h"
#include "collectives/algorithms.h"

namespace cohort::internal {

// Memory that several processes map. It has no name in any file system, so nothing is left of it
// when they end. Its size is sealed: no process can cut it while another one reads.
class SharedSegment {
 public:
  // Zeroed. Throws ResourceExhausted if the system does not have that much memory.
  static std::shared_ptr<SharedSegment> create(size_t bytes);
  // Maps the segment of another process, which passed its descriptor. Throws DataLoss if the
  // segment is not sealed or has another size.
  static std::shared_ptr<SharedSegment> map(FileDescriptor memory, size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }
  int descriptor() const { return memory_.get(); }
  // The memory stays mapped, but cannot be passed to another process any more.
  void forget_descriptor() { memory_ = FileDescriptor(); }

 private:
  SharedSegment(FileDescriptor memory, size_t bytes);

  FileDescriptor memory_;
  size_t bytes_;
  std::byte* data_ = nullptr;
};

// One zeroed segment for all members: the first member makes it and passes its descriptor to the
// others. Returns null on every member if one of them cannot map it; the log says why.
std::shared_ptr<SharedSegment> share_segment(Exchange& exchange, size_t bytes);

}  // namespace cohort::internal
