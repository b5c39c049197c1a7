#include "collectives/shared_board.h"

namespace cohort::internal {

SharedBoard::SharedBoard(CollectiveGroup& group, MemberSlot* slots)
    : group_(group),
      slots_(slots),
      looks_(static_cast<unsigned>(group.size()) > std::thread::hardware_concurrency() ? 50
                                                                                       : 2000) {}

void SharedBoard::begin(const Call& call) {
  MemberSlot::Coming& coming = own().coming;
  coming.fingerprints[call.number % 2].store(fingerprint(call), std::memory_order_relaxed);
  coming.sites[call.number % 2].store(call.site, std::memory_order_relaxed);
  coming.calls.store(call.number + 1, std::memory_order_release);
}

void SharedBoard::meet(const Call& call) {
  const uint64_t mine = fingerprint(call);
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    const MemberSlot::Coming& coming = slots_[rank].coming;
    await(call, rank, coming.calls, call.number + 1);
    // A member gets at most one call ahead of others before it has to wait for them.
    if (coming.fingerprints[call.number % 2].load(std::memory_order_relaxed) != mine ||
        !same_site(coming.sites[call.number % 2].load(std::memory_order_relaxed), call.site)) {
      group_.differ(call, rank);
    }
  }
}

void SharedBoard::await_long(const Call& call, int rank, const std::atomic<uint64_t>& counter,
                             uint64_t value) {
  const auto is_there = [&] { return counter.load(std::memory_order_acquire) >= value; };
  poll_in_group(group_, {.call = &call, .from = rank, .deadline = call.deadline}, is_there);
}

}  // namespace cohort::internal
