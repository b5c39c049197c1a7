#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/waiting.h"
#include "cohort/error.h"

namespace cohort::internal {

class GraphBuilder;  // ops/dispatch.h

// Where the replicas of one run meet, and where the run's failure is kept. Every replica takes part
// in each rendezvous by one call. The calls must agree in `what` and `detail`, else all replicas
// throw FailedPrecondition that names both calls and their replicas. A replica that finishes or
// fails while others wait ends the rendezvous for all, so that none waits for ever.
//
// A replica that waits spins for some microseconds, then sleeps.
class ReplicaRendezvous {
 public:
  // Only a program that is stuck waits as long as this.
  static constexpr std::chrono::minutes kDefaultTimeout{30};
  using Timeout = std::chrono::nanoseconds;
  static constexpr Timeout kForEver = Timeout::max();

  using Work = std::function<void(std::span<void* const> owns)>;

  struct Call {
    std::string_view what;  // "merge_call", "all_reduce"; a literal
    size_t detail;          // a hash of the rest: types, op, shapes
    void* own;              // this replica's part
    // How long the others may take to come. A replica that waits longer throws
    // DeadlineExceeded that names the missing ones, and the rendezvous is over for all.
    Timeout timeout = kDefaultTimeout;
    // The last replica to come runs this work of replica 0 while the others wait. The work does not
    // throw.
    const Work* last = nullptr;
  };

  // A few values that a replica brings as its `own`. The other replicas may read them until they
  // come to another rendezvous, so that their owner need not wait for them. The first cache line
  // describes the values: each line that another core wrote costs as much as a small sum.
  struct alignas(64) InlineValue {
    static constexpr size_t kMaxBytes = 1 << 10;
    static constexpr size_t kMaxAddresses = 5;
    uint64_t signature = 0;
    void* sender = nullptr;
    void* results = nullptr;
    std::array<const std::byte*, kMaxAddresses> addresses = {};
    alignas(64) std::array<std::byte, kMaxBytes> content;
  };

  explicit ReplicaRendezvous(size_t replicas);

  // Number of local replicas.
  size_t size() const { return slots_.size(); }
  // The graph that all replicas add to, one after the other, when run() was called while it was
  // being built; null otherwise.
  const GraphBuilder* shared_graph() const { return shared_graph_; }

  // Waits until all have come, then runs `once(owns)` in one of them, then `each(owns)` in all of
  // them at the same time, then lets all go on together. Either may be empty. An exception of
  // either is thrown in every replica.
  // Returns the `own` of each replica. Without `once` and `each`, an `own` may be gone already.
  std::span<void* const> meet(size_t replica, const Call& call, const Work& once, const Work& each);
  // Waits until all replicas are here, after a rendezvous at which each has seen that all want the
  // same. Compares nothing, so that it is quicker: no replica may fail or call anything else in
  // between.
  void meet_again(size_t replica);
  // The inline value for the next rendezvous of this replica; the value of the rendezvous before
  // stays as it is.
  InlineValue& inline_value(size_t replica);

  // Prepares for a new run, while no replica is inside. With a graph that all add to, one replica
  // runs at a time: replica 0 first, and the next one when it meets or ends.
  void begin(const GraphBuilder* shared_graph);
  // Before the replica's function: waits for its turn. False when the run has failed meanwhile.
  bool enter(size_t replica);
  // Records the exception of a replica; the first exception stays. Replicas that wait, or come
  // later, throw.
  void fail(std::exception_ptr exception);
  // Records that the replica has ended, with or without an exception.
  void leave(size_t replica);
  // Called after all replicas have left. Throws the failure of the run.
  void rethrow_failure();

  // For a replica other than the first: waits until ready(), which replica 0 makes true and
  // announces. False when replica 0 will not: it waits in a rendezvous, or has ended.
  bool await_first(const std::function<bool()>& ready);
  void announce();

 private:
  // The parts of counts_.
  static constexpr uint32_t kArrived = 1;
  static constexpr uint32_t kLeft = 1u << 16;
  static size_t arrived(uint32_t counts) { return counts & 0xffff; }
  static size_t left(uint32_t counts) { return counts >> 16; }
  // The bit of phase_, and the value of turn_, that say that the run is broken.
  static constexpr uint32_t kBroken = 1u << 31;

  static constexpr uint32_t kNothing = ~0u;
  struct alignas(64) ReplicaSlot {
    Call call = {};
    bool has_once = false;
    bool has_each = false;
    uint32_t phase = 0;  // how many events this replica has seen
    // Which event the replica came for. Others do not write here when that has happened: a line of
    // memory that two cores write costs more than all the rest.
    std::atomic<uint32_t> awaits = kNothing;
    std::atomic<bool> left = false;
  };
  // Two values: a replica writes one while other replicas may still read the other.
  struct InlineValues {
    std::array<std::unique_ptr<InlineValue>, 2> pair;
    size_t next = 0;
  };

  // The last replica to arrive runs `prepare` while the others wait.
  void arrive(size_t replica, void (ReplicaRendezvous::*prepare)());
  void open();
  void open_again();
  void check_calls();        // sets mismatch_
  void break_off_unequal();  // some wait, the others have left
  void run_once(const Work& once);
  void run_each(size_t replica, const Work& each);
  // The next event that all wait for.
  void publish(size_t replica);
  void await(size_t replica, Timeout timeout = kForEver);
  // The value of phase_ once that is not `before`; `before` when the time is up.
  uint32_t await_phase(uint32_t before, Timeout timeout);
  void wake_sleepers();
  // Ends the rendezvous because other replicas have not come in time. Returns if they come just
  // now.
  void give_up(size_t replica, uint32_t before);
  void await_turn(size_t replica);
  void pass_turn(size_t next);
  void break_off();
  void break_off_with(const Error& error);
  [[noreturn]] void throw_broken(size_t replica);
  // Whether the replica has come to a rendezvous that has not opened yet.
  bool waits(const ReplicaSlot& slot) const;
  std::string replicas_that(bool wait) const;

  const SpinWait waiting_;
  std::vector<ReplicaSlot> slots_;
  std::vector<InlineValues> inline_values_;  // by replica
  // Written by the last to arrive, read by all until they have left the rendezvous.
  std::vector<void*> owns_;
  Status mismatch_;
  const GraphBuilder* shared_graph_ = nullptr;
  bool in_turns_ = false;

  // What replicas spin on lies apart from what is written meanwhile.
  alignas(64) std::atomic<uint32_t> phase_{0};   // events so far, and kBroken
  alignas(64) std::atomic<uint32_t> counts_{0};  // arrived in the low half, ended in the high half
  std::atomic<uint32_t> finished_{0};            // how many have done their `each`
  std::atomic<uint32_t> turn_{0};

  alignas(64) std::atomic<int> watchers_{0};
  std::mutex mutex_;
  std::condition_variable announced_;
  std::atomic<int> sleepers_{0};
  std::condition_variable published_;
  std::exception_ptr thrown_;   // by `once` or `each` of this rendezvous
  bool once_failed_ = false;    // then no replica does its share; thrown_ may also be of a share
  std::exception_ptr failure_;  // guarded by mutex_ until all have left
  bool common_ = false;         // guarded by mutex_; failure_ is thrown in all who wait
};

}  // namespace cohort::internal
