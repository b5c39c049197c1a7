#pragma once

#include <array>
#include <atomic>

#include "base/waiting.h"
#include "collectives/collective_group.h"

namespace cohort::internal {

// Waits until is_there(). Throws if the group is closed, and at the call's deadline.
template <typename IsThere>
void poll_in_group(CollectiveGroup& group, const CollectiveGroup::Awaited& awaited,
                   const IsThere& is_there, const PollPolicy& policy = {}) {
  const uint64_t call = awaited.call->number;
  CollectiveGroup::Wait wait = group.begin_wait();
  const Poll poll(policy);
  while (!is_there()) {
    if (group.is_over(call) && !is_there()) group.throw_if_over(call);
    poll.pause([&] { group.look_at_clock(wait, awaited); });
  }
}

// What a member writes and the others read. The two parts are written at different times, so each
// has its own cache lines.
struct MemberSlot {
  struct alignas(128) Coming {
    std::atomic<uint64_t> calls;  // begun
    std::array<std::atomic<uint64_t>, 2> fingerprints;
    std::array<std::atomic<uint64_t>, 2> sites;
    std::atomic<uint64_t> staged;  // rounds whose values are there
  } coming;
  struct alignas(128) Going {
    std::atomic<uint64_t> reduced;  // rounds whose slice is reduced
    std::atomic<uint64_t> taken;    // rounds that it has taken everything from
    std::atomic<uint64_t> done;     // calls
  } going;
};

// The progress of members on one host, in shared memory. Counters only grow. A member that waits
// polls for some microseconds and then sleeps longer and longer: it needs no wake-up, and a process
// that dies leaves no lock.
class SharedBoard {
 public:
  // `slots`: one for each member, zeroed, in shared memory.
  SharedBoard(CollectiveGroup& group, MemberSlot* slots);

  MemberSlot& own() { return slots_[group_.rank()]; }
  MemberSlot& slot(int rank) { return slots_[rank]; }

  // This member has come to a call. Does not wait.
  void begin(const Call& call);
  // Waits until all members have come to the call. Throws if their calls differ.
  void meet(const Call& call);

  // Waits until that member's `counter` is at least `value`.
  void await(const Call& call, int rank, const std::atomic<uint64_t>& counter, uint64_t value) {
    for (int look = 0; look < looks_; ++look) {
      if (counter.load(std::memory_order_acquire) >= value) return;
      relax_core();
    }
    await_long(call, rank, counter, value);
  }
  template <typename CounterOf>
  void await_others(const Call& call, const CounterOf& counter_of, uint64_t value) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (rank != group_.rank()) await(call, rank, counter_of(slots_[rank]), value);
    }
  }

 private:
  void await_long(const Call& call, int rank, const std::atomic<uint64_t>& counter, uint64_t value);

  CollectiveGroup& group_;
  MemberSlot* const slots_;
  // With more members than cores, the awaited member may need the core of this one.
  const int looks_;
};

}  // namespace cohort::internal
