#pragma once

#include <array>
#include <atomic>

#include "base/waiting.h"
#include "collectives/group.h"

namespace cohort::internal {

// What a member writes and the others read. The two parts are written at different times; each has
// cache lines of its own.
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

// Where members of one host tell each other how far they are. Counters only grow. A wait is spent
// looking for some microseconds, then more and more asleep: nobody has to be woken, and a process
// that dies leaves no lock behind.
class SharedBoard {
 public:
  // `slots`: one for each member, zeroed, in shared memory.
  SharedBoard(CollectiveGroup& group, MemberSlot* slots);

  MemberSlot& own() { return slots_[group_.rank()]; }
  MemberSlot& slot(int rank) { return slots_[rank]; }

  // This member comes to a call. Waits for nobody.
  void begin(const Call& call);
  // Waits until all have come to it. Throws when their calls differ.
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
  // Where there are more members than cores, whoever is waited for may need this one.
  const int looks_;
};

}  // namespace cohort::internal
