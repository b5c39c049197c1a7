#pragma once

#include <optional>
#include <span>
#include <vector>

#include "transport/shared_mapping.h"

namespace cohort::internal {

// Records of up to kMaxBody bytes in the ring of a SharedDirection. Each process trusts only its
// own position. Both throw DataLoss when the other side's makes no sense.
inline constexpr size_t kMaxRecordBody = 8192;

class RingWriter {
 public:
  explicit RingWriter(SharedDirection& shared) : shared_(shared) {}

  bool has_room(size_t body_bytes) const;
  // There must be room.
  void write(std::span<const std::byte> body);

 private:
  SharedDirection& shared_;
  uint64_t tail_ = 0;
};

// One thread at a time reads; any may ask has_record().
class RingReader {
 public:
  explicit RingReader(SharedDirection& shared) : shared_(shared) {}

  bool has_record() const;
  // Copies the next record into `body`; false when there is none.
  bool read(std::vector<std::byte>& body);

 private:
  void copy_out(uint64_t from, std::span<std::byte> to) const;

  SharedDirection& shared_;
  std::atomic<uint64_t> head_ = 0;
};

}  // namespace cohort::internal
