#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/message_fields.h"

namespace cohort::internal {

// Where another process of the same user and host finds a segment while its maker lives.
struct SegmentName {
  uint64_t pid = 0;
  uint64_t descriptor = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;

  void write(MessageWriter& writer) const;
  static SegmentName read(MessageReader& reader);
};

// Memory that several processes map. It has no name in any file system, so nothing is left behind,
// however they end. Only processes that may look into the maker's can open it: those of its user.
class SharedSegment {
 public:
  // Zeroed. Throws ResourceExhausted when there is not so much memory.
  static std::shared_ptr<SharedSegment> create(size_t bytes);
  // Throws the code of code_of_errno() when it can not be opened from here, FailedPrecondition when
  // another one is there.
  static std::shared_ptr<SharedSegment> open(const SegmentName& name);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  // Of the maker.
  SegmentName name() const;
  // Nobody can open it any more; mapped it stays.
  void hide();

 private:
  SharedSegment(int descriptor, size_t bytes);

  int descriptor_;
  size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace cohort::internal
