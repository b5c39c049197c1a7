#pragma once

#include <array>
#include <atomic>
#include <initializer_list>

#include "base/file_descriptor.h"
#include "transport/connection.h"

namespace cohort::internal {

// How two processes wake each other's threads: one Unix socket per kind of sleeping thread. The
// sockets also show at once when the other process is gone. Thread-safe.
class PeerSignals {
 public:
  // The readers of the connection, and the sender that waits for room.
  enum Sleeper { Foreground, Background, Room };
  static constexpr size_t kCount = 3;

  // This side's ends of the sockets, in the order of Sleeper.
  explicit PeerSignals(std::array<FileDescriptor, kCount> sockets);

  // Wakes the other process's sleeper.
  void notify(Sleeper sleeper);
  // Wakes this process's sleeper, now or when it goes to sleep next. Not for Room.
  void wake(Sleeper sleeper);
  // Sleeps as each of `sleepers` until one of them is woken, the other process goes, shut(), or the
  // deadline.
  void wait(std::initializer_list<Sleeper> sleepers, Deadline deadline);

  // Whether a wait has found the other process gone.
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  // Wakes both sides' sleepers, for good.
  void shut();

 private:
  void drain(int socket);

  const std::array<FileDescriptor, kCount> sockets_;
  const std::array<FileDescriptor, kCount> local_;  // counters that only this process has
  std::atomic<bool> broken_ = false;
};

}  // namespace cohort::internal
