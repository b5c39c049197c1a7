#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/file_descriptor.h"
#include "transport/status_message.h"

namespace cohort::internal {

// What lies in the shared memory for one direction: a ring of records that describe messages, and
// beside it an arena of blocks for what is too large for the ring. The other process can write
// anything here at any time: every value is read once, and checked, before it is used.
//
// Who goes to sleep says so and then looks once more; who changes something does that and then
// looks whether somebody sleeps. So that one of them sees the other, both use the atomics in
// sequentially consistent order.
struct SharedDirection {
  static constexpr size_t kRingBytes = size_t{256} << 10;
  static constexpr size_t kMaxBlocks = 4096;
  static constexpr size_t kMaxFarewell = kMaxStatusCauses * (kMaxStatusText + 300);
  // Of `foreground` and `background`.
  enum Attendance : uint32_t { Absent, Awake, Asleep };

  // Written by the sender:
  alignas(64) std::atomic<uint64_t> tail;    // bytes ever put into the ring
  alignas(64) std::atomic<uint32_t> closed;  // 1: nothing more comes, and the farewell is there
  alignas(64) std::atomic<uint32_t> room_wanted;  // 1: the sender sleeps; the receiver sets it back
  // Written by the receiver:
  alignas(64) std::atomic<uint64_t> head;        // bytes ever taken out of the ring
  alignas(64) std::atomic<uint64_t> returned;    // blocks ever given back
  alignas(64) std::atomic<uint32_t> foreground;  // Attendance of the two readers; who rings the
  alignas(64) std::atomic<uint32_t> background;  // bell of a sleeping one sets it to Awake

  alignas(64) std::atomic<uint32_t> farewell_size;
  std::byte farewell[kMaxFarewell];  // a Status: why it was closed
  alignas(
      64) std::atomic<uint32_t> returns[kMaxBlocks];  // block number i given back is at i % size
  alignas(64) std::byte ring[kRingBytes];
};

// Shared memory with the two directions and their arenas. Thread-safe.
class SharedMapping {
 public:
  // Fresh memory. Its size can not be changed by anybody. Throws ResourceExhausted.
  explicit SharedMapping(size_t arena_bytes);
  // Somebody else's. Throws DataLoss when its size could change, or is not one of ours.
  explicit SharedMapping(FileDescriptor memory);
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping();

  int descriptor() const { return memory_.get(); }
  // The memory stays; nobody else can get it any more.
  void forget_descriptor() { memory_ = FileDescriptor(); }
  // 0: from who made the memory; 1: to it.
  SharedDirection& direction(int index) const;
  std::span<std::byte> arena(int index) const;

 private:
  void map(size_t bytes);

  FileDescriptor memory_;
  std::span<std::byte> bytes_;
};

}  // namespace cohort::internal
