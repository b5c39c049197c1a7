#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace cohort::internal {

// How an Activity lies in memory that two processes see. Both are of one build or the tag differs.
// Times are nanoseconds of the steady clock, which is the same for all processes of a machine.
struct ActivityBoard {
  static constexpr uint64_t kTag = 0x436f686f72743032;
  static constexpr size_t kSlots = 16;
  static constexpr size_t kTextBytes = 256;
  using Text = std::array<std::atomic<char>, kTextBytes>;  // ends at a zero, or full

  // One wait. Odd versions are being written; a reader that sees another version behind than before
  // has read a mixture.
  struct Slot {
    std::atomic<bool> taken;
    std::atomic<uint32_t> version;
    std::atomic<int64_t> since;  // 0: none
    std::atomic<uint8_t> kind;
    Text what;
    Text whom;  // names with commas between them
  };

  // How far a training is. Versions as in a slot.
  struct Progress {
    std::atomic<uint32_t> version;
    std::atomic<bool> quiet;
    Text text;
  };

  std::atomic<uint64_t> tag;
  std::atomic<int32_t> process;  // who writes here
  std::atomic<uint64_t> steps;
  std::atomic<int64_t> input_ns;
  std::atomic<int64_t> wait_ns;
  std::atomic<int64_t> input_since;  // 0: none
  Progress progress;
  std::array<Slot, kSlots> slots;
};
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

}  // namespace cohort::internal
