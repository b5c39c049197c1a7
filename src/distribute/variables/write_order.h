#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "cohort/strategy_extended.h"
#include "graph/tracing.h"

namespace cohort::internal {

// Puts the writes to the variables of one strategy in an order that all copies see: one writer at a
// time. A writer is a thread, or all replicas of a run together, each of which ends its part when
// it has written its copy. The writes of a traced function take their turn when the function is
// called, for the whole call. Thread-safe.
class WriteOrder : public EffectOrder, public std::enable_shared_from_this<WriteOrder> {
 public:
  explicit WriteOrder(Clock& clock = system_clock()) : clock_(clock) {}

  // A thread that writes, with one part. While a function is traced it only notes the order.
  void lock();
  void unlock();

  // Each replica of `run` calls this when all replicas have ended their parts of the last write of
  // `run`. Waits until no other writer writes. From then on `run` is the writer, until its replicas
  // have ended `parts` parts.
  void join(const void* run, size_t parts);
  // One replica calls this for all replicas of `run`. Waits for a writer that is a thread; throws
  // FailedPrecondition while another run writes.
  void begin_alone(const void* run, size_t parts);
  // Ends this many parts of `run`, or all that are left.
  void end(const void* run, size_t parts = SIZE_MAX);

  // Notes the order for the function that this thread traces. With `spans_workers`, the function's
  // calls must not wait for other writers.
  void note(bool spans_workers = false);
  std::shared_ptr<void> enter(bool may_wait) override;

 private:
  // How long a writer waits before it logs a warning, and how long after that for a writer that may
  // itself wait for this thread. A minute would be long for a person who watches.
  static constexpr std::chrono::seconds kQuietWait{5};
  static constexpr std::chrono::seconds kMaxWait{25};

  std::shared_ptr<void> begin_call();
  template <typename Condition>
  void wait_until(std::unique_lock<std::mutex>& lock, const Condition& may_write);

  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t parts_ = 0;           // that have not ended; guarded by mutex_ as are the next two
  const void* run_ = nullptr;  // whose they are
  bool writer_may_wait_ = false;
  std::atomic<bool> spans_workers_{false};
};

// The turn of one thread.
using WritersTurn = std::unique_lock<WriteOrder>;

// A replica's part in a write that all replicas of its run make, each to its own copy. The run's
// turn begins after the rendezvous of the replicas: until then one of them may wait for another
// thread, which may write variables. On several workers the turn begins before the rendezvous, or
// fails, because the rendezvous reduces over the workers and these must see one order. While a
// function is traced, this notes the order. In other graphs, and for one replica, it does nothing.
class [[nodiscard]] ReplicaTurn {
 public:
  ReplicaTurn(ReplicaContext& replica, WriteOrder& order);
  ~ReplicaTurn();
  ReplicaTurn(const ReplicaTurn&) = delete;
  ReplicaTurn& operator=(const ReplicaTurn&) = delete;

  // Called after the replicas have met. From now on each of them may write.
  void all_met();

 private:
  WriteOrder* order_ = nullptr;
  const void* run_;
  size_t parts_ = 0;
  bool spans_workers_ = false;
  const bool first_;
  bool met_ = false;
};

}  // namespace cohort::internal
