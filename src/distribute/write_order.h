#pragma once

#include <condition_variable>
#include <mutex>

#include "cohort/strategy.h"

namespace cohort::internal {

// Puts the writes to the variables of one strategy in an order that all copies see: one writer at a
// time. A writer is a thread, or all replicas of a run together, each of which ends its part when
// it has written its copy. Thread-safe.
class WriteOrder {
 public:
  // A writer with one part.
  void lock() { begin(nullptr, 1); }
  void unlock() { end_part(nullptr); }

  // Waits until no run writes. Then `run` writes, until it has ended all parts.
  void begin(const void* run, size_t parts);
  // The same, but throws FailedPrecondition while another run writes.
  void begin_alone(const void* run, size_t parts);
  void end_part(const void* run);
  // Ends all parts that `run` has left.
  void end(const void* run);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t parts_ = 0;           // that have not ended; guarded by mutex_, as the next
  const void* run_ = nullptr;  // whose they are
};

// That of one thread.
using WritersTurn = std::unique_lock<WriteOrder>;

// A replica's part in a write that all replicas of its run make, each to its own copy. Replica 0
// waits for the run's turn before the replicas meet, so that no replica writes earlier. Does
// nothing while a graph is built, and where there is one replica.
class [[nodiscard]] ReplicaTurn {
 public:
  ReplicaTurn(ReplicaContext& replica, WriteOrder& order);
  ~ReplicaTurn();
  ReplicaTurn(const ReplicaTurn&) = delete;
  ReplicaTurn& operator=(const ReplicaTurn&) = delete;

  // After the replicas have met: now each of them writes.
  void all_met() { met_ = true; }

 private:
  WriteOrder* order_ = nullptr;
  const void* run_;
  const bool first_;
  bool met_ = false;
};

}  // namespace cohort::internal
