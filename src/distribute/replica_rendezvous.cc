#include "distribute/replica_rendezvous.h"

#include "base/raise.h"

namespace cohort::internal {

ReplicaRendezvous::ReplicaRendezvous(size_t replicas)
    : waiting_(replicas), seats_(replicas), letters_(replicas), owns_(replicas) {}

void ReplicaRendezvous::begin(const GraphBuilder* shared_graph) {
  counts_ = 0;
  phase_ = 0;
  turn_ = 0;
  shared_graph_ = shared_graph;
  in_turns_ = shared_graph != nullptr;
  thrown_ = nullptr;
  failure_ = nullptr;
  common_ = false;
  for (Seat& seat : seats_) {
    seat.phase = 0;
    seat.awaits = kNothing;
    seat.left = false;
  }
}

bool ReplicaRendezvous::enter(size_t replica) {
  await_turn(replica);
  return !in_turns_ || turn_.load() != kBroken;
}

std::span<void* const> ReplicaRendezvous::meet(size_t replica, const Call& call, const Work& once,
                                               const Work& each) {
  Seat& seat = seats_[replica];
  seat.call = call;
  seat.has_once = static_cast<bool>(once);
  seat.has_each = static_cast<bool>(each);
  arrive(replica, &ReplicaRendezvous::open);
  if (!mismatch_.ok()) throw Error(mismatch_);
  if (once) {
    if (replica == 0) {
      run_once(once);
    } else {
      await(replica);
    }
  }
  if (each && !once_failed_) run_each(replica, each);
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  return owns_;
}

void ReplicaRendezvous::meet_again(size_t replica) {
  arrive(replica, &ReplicaRendezvous::open_again);
}

MergePoint::Letter& ReplicaRendezvous::letter(size_t replica) {
  Letters& own = letters_[replica];
  own.next = 1 - own.next;
  std::unique_ptr<Letter>& letter = own.pair[own.next];
  if (letter == nullptr) letter = std::make_unique<Letter>();
  return *letter;
}

void ReplicaRendezvous::arrive(size_t replica, void (ReplicaRendezvous::*prepare)()) {
  if ((phase_.load(std::memory_order_acquire) & kBroken) != 0) throw_broken(replica);
  Seat& seat = seats_[replica];
  seat.awaits.store(seat.phase, std::memory_order_relaxed);
  const uint32_t counts = counts_.fetch_add(kArrived) + kArrived;
  if (arrived(counts) == size()) {
    (this->*prepare)();
    publish(replica);
    await_turn(replica);
  } else {
    if (replica == 0) announce();
    if (arrived(counts) + left(counts) == size()) break_off_unequal();
    await(replica, seat.call.timeout);
  }
}

void ReplicaRendezvous::open() {
  for (size_t r = 0; r < size(); ++r) owns_[r] = seats_[r].call.own;
  // What all read afterwards is written only when it changes: else it would travel between cores.
  if (thrown_ != nullptr) thrown_ = nullptr;
  if (once_failed_) once_failed_ = false;
  finished_ = 0;
  check_calls();
  const Work* last = seats_.front().call.last;
  if (last != nullptr && mismatch_.ok()) (*last)(owns_);
  open_again();
}

void ReplicaRendezvous::open_again() {
  counts_.fetch_sub(static_cast<uint32_t>(size()) * kArrived);
}

void ReplicaRendezvous::check_calls() {
  if (!mismatch_.ok()) mismatch_ = {};
  const Seat& first = seats_.front();
  for (size_t r = 1; r < size(); ++r) {
    const Seat& other = seats_[r];
    const bool same_name = first.call.what == other.call.what;
    if (same_name && first.call.detail == other.call.detail && first.has_once == other.has_once &&
        first.has_each == other.has_each) {
      continue;
    }
    mismatch_ = {.code = Code::FailedPrecondition,
                 .message = fmt::format(
                     "[run] the replicas do not make the same calls: replica 0 calls {}, while "
                     "replica {} calls {}{}; all must make the same calls in the same order",
                     first.call.what, r, other.call.what,
                     same_name ? " with other types, operations or shapes" : "")};
    return;
  }
}

void ReplicaRendezvous::run_once(const Work& once) {
  try {
    once(owns_);
  } catch (...) {
    thrown_ = std::current_exception();
    once_failed_ = true;
  }
  publish(0);
}

void ReplicaRendezvous::run_each(size_t replica, const Work& each) {
  try {
    each(owns_);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (thrown_ == nullptr) thrown_ = std::current_exception();
  }
  if (finished_.fetch_add(1) + 1 == size()) {
    publish(replica);
    await_turn(replica);
  } else {
    await(replica);
  }
}

void ReplicaRendezvous::publish(size_t replica) {
  ++seats_[replica].phase;
  phase_.fetch_add(1);
  wake_sleepers();
  if (in_turns_) pass_turn(0);
}

void ReplicaRendezvous::await(size_t replica, Timeout timeout) {
  const uint32_t before = seats_[replica].phase++;
  if (in_turns_ && phase_.load() == before) pass_turn(replica + 1);
  uint32_t now = await_phase(before, timeout);
  if (now == before) {
    give_up(replica, before);
    now = await_phase(before, kForEver);
  }
  // What has happened has, even if the run was broken off afterwards.
  if (now == (before | kBroken)) throw_broken(replica);
  await_turn(replica);
}

uint32_t ReplicaRendezvous::await_phase(uint32_t before, Timeout timeout) {
  const uint32_t now = waiting_.spin(phase_, before);
  if (now != before) return now;
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1);
  const auto changed = [&] { return phase_.load() != before; };
  if (timeout == kForEver) {
    published_.wait(lock, changed);
  } else {
    published_.wait_for(lock, timeout, changed);
  }
  sleepers_.fetch_sub(1);
  return phase_.load();
}

void ReplicaRendezvous::wake_sleepers() {
  if (sleepers_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  published_.notify_all();
}

void ReplicaRendezvous::await_turn(size_t replica) {
  if (!in_turns_) return;
  const auto own = static_cast<uint32_t>(replica);
  for (uint32_t turn = turn_.load(); turn != own && turn != kBroken;) {
    turn = waiting_.while_equal(turn_, turn);
  }
}

void ReplicaRendezvous::pass_turn(size_t next) {
  uint32_t turn = turn_.load();
  while (turn != kBroken && !turn_.compare_exchange_weak(turn, static_cast<uint32_t>(next))) {
  }
  turn_.notify_all();
}

bool ReplicaRendezvous::await_first(const std::function<bool()>& ready) {
  watchers_.fetch_add(1);
  std::unique_lock lock(mutex_);
  const Seat& first = seats_.front();
  announced_.wait(lock, [&] {
    return ready() || waits(first) || first.left || (phase_.load() & kBroken) != 0;
  });
  watchers_.fetch_sub(1);
  return ready();
}

void ReplicaRendezvous::announce() {
  if (watchers_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  announced_.notify_all();
}

}  // namespace cohort::internal
