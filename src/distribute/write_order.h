#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "cohort/strategy.h"
#include "graph/effect_order.h"

namespace cohort::internal {

// Puts the writes to the variables of one strategy in an order that all copies see: one writer at a
// time. A writer is a thread, or all replicas of a run together, each of which ends its part when
// it has written its copy. The writes of a traced function take their turn when the function is
// called, for the whole call. Thread-safe.
class WriteOrder : public EffectOrder, public std::enable_shared_from_this<WriteOrder> {
 public:
  explicit WriteOrder(Clock& clock = system_clock()) : clock_(clock) {}

  // A writer with one part. Notes the order, and does nothing else, while a function is traced.
  void lock();
  void unlock();

  // In each replica of `run`, after all have ended their parts of its last write. Waits until
  // nothing else writes. Then `run` writes, until its replicas have ended their `parts` parts.
  void join(const void* run, size_t parts);
  // In one replica, for all of them. Throws FailedPrecondition while another run writes.
  void begin_alone(const void* run, size_t parts);
  void end_part(const void* run);
  // Ends all parts that `run` has left.
  void end(const void* run);

  // For the function that this thread traces. `spans_workers`: its calls must not wait for others.
  void note(bool spans_workers = false);
  std::shared_ptr<void> enter(bool may_wait) override;

 private:
  // How long a writer waits before it logs a warning, and how long after that for a writer that may
  // itself wait for this thread. A minute would keep a person waiting for what cannot end.
  static constexpr std::chrono::seconds kQuietWait{5};
  static constexpr std::chrono::seconds kMaxWait{25};

  std::shared_ptr<void> begin_call();
  template <typename Condition>
  void wait_until(std::unique_lock<std::mutex>& lock, const Condition& may_write);

  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t parts_ = 0;           // that have not ended; guarded by mutex_, as the next two
  const void* run_ = nullptr;  // whose they are
  bool writer_may_wait_ = false;
  std::atomic<bool> spans_workers_{false};
};

// That of one thread.
using WritersTurn = std::unique_lock<WriteOrder>;

// A replica's part in a write that all replicas of its run make, each to its own copy. The run's
// turn comes after the replicas have met: until then one of them may wait for what another thread
// does, which may write variables. On several workers it begins before, or not at all: the meeting
// reduces over the workers, which must see one order. Notes the order while a function is traced,
// and does nothing in other graphs, and where there is one replica.
class [[nodiscard]] ReplicaTurn {
 public:
  ReplicaTurn(ReplicaContext& replica, WriteOrder& order);
  ~ReplicaTurn();
  ReplicaTurn(const ReplicaTurn&) = delete;
  ReplicaTurn& operator=(const ReplicaTurn&) = delete;

  // After the replicas have met: now each of them writes.
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
