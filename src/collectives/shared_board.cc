#include "collectives/shared_board.h"

#include <sched.h>

#include <algorithm>

#include "base/raise.h"

namespace cohort::internal {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds kAwake{200};      // so long a wait gives the core away only between looks
constexpr microseconds kShortSleep{20};  // then it sleeps for a part of the time that it has waited
constexpr microseconds kLongSleep{500};
constexpr int kPart = 32;

}  // namespace

SharedBoard::SharedBoard(CollectiveGroup& group, MemberSlot* slots)
    : group_(group),
      slots_(slots),
      looks_(static_cast<unsigned>(group.size()) > std::thread::hardware_concurrency() ? 50
                                                                                       : 2000) {}

void SharedBoard::begin(const Call& call) {
  MemberSlot::Coming& coming = own().coming;
  coming.fingerprints[call.number % 2].store(fingerprint(call), std::memory_order_relaxed);
  coming.calls.store(call.number + 1, std::memory_order_release);
}

void SharedBoard::meet(const Call& call) {
  const uint64_t mine = fingerprint(call);
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    const MemberSlot::Coming& coming = slots_[rank].coming;
    await(call, rank, coming.calls, call.number + 1);
    // A member gets at most one call ahead of others before it has to wait for them.
    if (coming.fingerprints[call.number % 2].load(std::memory_order_relaxed) != mine) {
      differ(call, rank);
    }
  }
}

// The two tell each other what they are doing; that closes the group for all.
void SharedBoard::differ(const Call& call, int rank) {
  group_.announce(call, rank);
  const auto limit = steady_clock::now() + std::chrono::seconds(2);
  while (!group_.is_over(call.number) && steady_clock::now() < limit) {
    std::this_thread::sleep_for(kLongSleep);
  }
  group_.throw_if_over(call.number);
  raise(Code::FailedPrecondition, "[{}] call {} differs: {} makes {}, {} makes another one",
        internal::name_of(call.kind), call.number, group_.describe(group_.rank()), to_string(call),
        group_.describe(rank));
}

void SharedBoard::await_long(const Call& call, int rank, const std::atomic<uint64_t>& counter,
                             uint64_t value) {
  const auto is_there = [&] { return counter.load(std::memory_order_acquire) >= value; };
  CollectiveGroup::Wait wait = group_.begin_wait();
  const CollectiveGroup::Awaited awaited{.call = &call, .from = rank, .deadline = call.deadline};
  while (!is_there()) {
    if (group_.is_over(call.number) && !is_there()) group_.throw_if_over(call.number);
    const auto waited = steady_clock::now() - wait.began;
    if (waited < kAwake) {
      sched_yield();
      continue;
    }
    group_.look_at_clock(wait, awaited);
    std::this_thread::sleep_for(
        std::clamp<steady_clock::duration>(waited / kPart, kShortSleep, kLongSleep));
  }
}

}  // namespace cohort::internal
