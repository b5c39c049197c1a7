#include "collectives/shared_engine.h"

#include <algorithm>

#include "collectives/algorithms.h"
#include "kernels/reduce_elements.h"

namespace cohort::internal {

SharedBoard::SharedBoard(CollectiveGroup& group, MemberSlot* slots)
    : group_(group),
      slots_(slots),
      looks_(static_cast<unsigned>(group.size()) > std::thread::hardware_concurrency() ? 50
                                                                                       : 2000) {}

void SharedBoard::meet(const Call& call) {
  const uint64_t mine = fingerprint(call);
  MemberSlot::Coming& here = own().coming;
  here.fingerprints[call.number % 2].store(mine, std::memory_order_relaxed);
  here.sites[call.number % 2].store(call.site, std::memory_order_relaxed);
  here.calls.store(call.number + 1, std::memory_order_release);
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

size_t SharedEngine::segment_bytes(int members) {
  return static_cast<size_t>(members) * sizeof(MemberSlot) + Staging::bytes(members);
}

SharedEngine::SharedEngine(CollectiveGroup& group, std::shared_ptr<SharedSegment> segment)
    : Engine(group, Distance::SharedMemory),
      segment_(std::move(segment)),
      board_(group, reinterpret_cast<MemberSlot*>(segment_->data() + Staging::bytes(group.size()))),
      staging_(group, board_, segment_->data()) {}

void SharedEngine::all_reduce(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  if (table.choose(values.bytes.size()) == Algorithm::Everything) {
    reduce_everything(staging_, call, values, out);
  } else {
    reduce_slices(staging_, call, values, out);
  }
}

void SharedEngine::reduce(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  staged_reduce(staging_, call, values, out);
}

void SharedEngine::reduce_scatter(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  staged_reduce_scatter(staging_, call, values, out);
}

void SharedEngine::broadcast(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  staged_broadcast(staging_, call, values, out);
}

void SharedEngine::all_gather(const Call& call, const Buffer& own, const Allocate& allocate) {
  board_.meet(call);
  staged_all_gather(staging_, call, own, allocate);
}

void SharedEngine::barrier(const Call& call) { board_.meet(call); }

void SharedEngine::allocate(const Call& call, PackMemory& pack) {
  const size_t each = (pack.bytes() + 4095) / 4096 * 4096;  // each member has whole pages
  Exchange exchange(group_, call);
  const auto segment =
      share_segment(exchange, std::max<size_t>(each, 1) * static_cast<size_t>(group_.size()));
  if (segment == nullptr) return Engine::allocate(call, pack);
  for (int rank = 0; rank < group_.size(); ++rank) {
    pack.all.push_back(segment->data() + static_cast<size_t>(rank) * each);
  }
  pack.sources.assign(pack.all.begin(), pack.all.end());
  pack.own = pack.all[static_cast<size_t>(group_.rank())];
  pack.holder = segment;
}

// Every member adds up its slice, from all packs into all packs.
void SharedEngine::all_reduce(const Call& call, PackMemory& pack) {
  if (pack.all.empty()) return Engine::all_reduce(call, pack);
  board_.meet(call);
  const Slice mine = slice_of(pack.count(), group_.rank(), group_.size());
  reduce_elements_into(pack.all, {.op = call.op, .dtype = pack.dtype, .sources = pack.sources},
                       mine.begin, mine.end);
  const auto done = [](MemberSlot & slot) -> auto& { return slot.going.done; };
  board_.own().going.done.store(call.number + 1, std::memory_order_release);
  board_.await_others(call, done, call.number + 1);
}

}  // namespace cohort::internal
