#pragma once

#include <array>
#include <atomic>
#include <initializer_list>

#include "base/file_descriptor.h"
#include "transport/connection.h"

namespace cohort::internal {

// How two processes wake each other's threads: one Unix socket per kind of sleeper, which also says
// at once when the other process is gone. Thread-safe.
class PeerSignals {
 public:
  enum Bell { Foreground, Background, Room };
  static constexpr size_t kCount = 3;

  // This side's ends of the sockets, in the order of Bell.
  explicit PeerSignals(std::array<FileDescriptor, kCount> sockets);

  // Wakes the other process's sleeper.
  void ring(Bell bell);
  // Wakes this process's, now or when it goes to sleep next. Not for Room.
  void wake(Bell bell);
  // Sleeps until one of the bells rings, the other process goes, shut(), or the deadline.
  void wait(std::initializer_list<Bell> bells, Deadline deadline);

  // Whether a wait has found the other process gone.
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  // Both sides' sleepers wake, for good.
  void shut();

 private:
  void drain(int socket);

  const std::array<FileDescriptor, kCount> sockets_;
  const std::array<FileDescriptor, kCount> own_;  // counters that only this process knows
  std::atomic<bool> broken_ = false;
};

}  // namespace cohort::internal
