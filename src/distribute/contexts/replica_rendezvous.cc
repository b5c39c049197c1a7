#include "distribute/contexts/replica_rendezvous.h"

#include <utility>

#include "base/clock.h"
#include "base/raise.h"

namespace cohort::internal {

ReplicaRendezvous::ReplicaRendezvous(size_t replicas)
    : waiting_(replicas), slots_(replicas), inline_values_(replicas), owns_(replicas) {}

void ReplicaRendezvous::begin(const GraphBuilder* shared_graph) {
  counts_ = 0;
  phase_ = 0;
  turn_ = 0;
  shared_graph_ = shared_graph;
  in_turns_ = shared_graph != nullptr;
  thrown_ = nullptr;
  failure_ = nullptr;
  common_ = false;
  for (ReplicaSlot& slot : slots_) {
    slot.phase = 0;
    slot.awaits = kNothing;
    slot.left = false;
  }
}

bool ReplicaRendezvous::enter(size_t replica) {
  await_turn(replica);
  return !in_turns_ || turn_.load() != kBroken;
}

std::span<void* const> ReplicaRendezvous::meet(size_t replica, const Call& call, const Work& once,
                                               const Work& each) {
  ReplicaSlot& slot = slots_[replica];
  slot.call = call;
  slot.has_once = static_cast<bool>(once);
  slot.has_each = static_cast<bool>(each);
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

ReplicaRendezvous::InlineValue& ReplicaRendezvous::inline_value(size_t replica) {
  InlineValues& own = inline_values_[replica];
  own.next = 1 - own.next;
  std::unique_ptr<InlineValue>& value = own.pair[own.next];
  if (value == nullptr) value = std::make_unique<InlineValue>();
  return *value;
}

void ReplicaRendezvous::arrive(size_t replica, void (ReplicaRendezvous::*prepare)()) {
  if ((phase_.load(std::memory_order_acquire) & kBroken) != 0) throw_broken(replica);
  ReplicaSlot& slot = slots_[replica];
  slot.awaits.store(slot.phase, std::memory_order_relaxed);
  const uint32_t counts = counts_.fetch_add(kArrived) + kArrived;
  if (arrived(counts) == size()) {
    (this->*prepare)();
    publish(replica);
    await_turn(replica);
  } else {
    if (replica == 0) announce();
    if (arrived(counts) + left(counts) == size()) break_off_unequal();
    await(replica, slot.call.timeout);
  }
}

void ReplicaRendezvous::open() {
  for (size_t r = 0; r < size(); ++r) owns_[r] = slots_[r].call.own;
  // What all read afterwards is written only when it changes: else it would move between cores.
  if (thrown_ != nullptr) thrown_ = nullptr;
  if (once_failed_) once_failed_ = false;
  finished_ = 0;
  check_calls();
  const Work* last = slots_.front().call.last;
  if (last != nullptr && mismatch_.ok()) (*last)(owns_);
  open_again();
}

void ReplicaRendezvous::open_again() {
  // This precedes publish(): a replica that sees the new phase may come to the next rendezvous at
  // once.
  counts_.fetch_sub(static_cast<uint32_t>(size()) * kArrived);
}

void ReplicaRendezvous::check_calls() {
  if (!mismatch_.ok()) mismatch_ = {};
  const ReplicaSlot& first = slots_.front();
  for (size_t r = 1; r < size(); ++r) {
    const ReplicaSlot& other = slots_[r];
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
  ++slots_[replica].phase;
  phase_.fetch_add(1);
  wake_sleepers();
  if (in_turns_) pass_turn(0);
}

void ReplicaRendezvous::await(size_t replica, Timeout timeout) {
  const uint32_t before = slots_[replica].phase++;
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
  // A sleeper counts itself before it looks at phase_, and publish() changes phase_ before it looks
  // at the count. So one of the two sees the other.
  sleepers_.fetch_add(1);
  const auto changed = [&] { return phase_.load() != before; };
  if (timeout == kForEver) {
    published_.wait(lock, changed);
  } else {
    published_.wait_until(lock, deadline_after(timeout), changed);
  }
  sleepers_.fetch_sub(1);
  return phase_.load();
}

void ReplicaRendezvous::wake_sleepers() {
  if (sleepers_.load() == 0) return;
  // A sleeper that has looked at phase_ and does not wait yet holds the mutex.
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
  const ReplicaSlot& first = slots_.front();
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

void ReplicaRendezvous::give_up(size_t replica, uint32_t before) {
  uint32_t counts = counts_.load();
  do {
    // The last one has come: the rendezvous is about to open, or has opened.
    if (phase_.load() != before || arrived(counts) == size() || arrived(counts) == 0) return;
    // Otherwise this replica takes its arrival back, so that a late replica does not open it.
  } while (!counts_.compare_exchange_weak(counts, counts - kArrived));
  const Call& call = slots_[replica].call;
  break_off_with(
      {Code::DeadlineExceeded,
       fmt::format("[{}] replica {} has waited {} s for replicas {}; CommunicationOptions sets how "
                   "long a call may take",
                   call.what, replica, std::chrono::duration<double>(call.timeout).count(),
                   replicas_that(false))});
}

void ReplicaRendezvous::break_off() {
  phase_.fetch_or(kBroken);
  wake_sleepers();
  turn_ = kBroken;
  turn_.notify_all();
  announce();
}

void ReplicaRendezvous::break_off_with(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) {
      common_ = true;
      failure_ = std::make_exception_ptr(error);
    }
  }
  break_off();
}

void ReplicaRendezvous::break_off_unequal() {
  break_off_with(
      {Code::FailedPrecondition,
       fmt::format("[run] replicas {} wait in a call for replicas {}, which have ended: all "
                   "replicas must make the same calls of merge_call, all_reduce and all_gather",
                   replicas_that(true), replicas_that(false))});
}

bool ReplicaRendezvous::waits(const ReplicaSlot& slot) const {
  return slot.awaits.load() == (phase_.load() & ~kBroken);
}

std::string ReplicaRendezvous::replicas_that(bool wait) const {
  std::string names;
  for (size_t r = 0; r < size(); ++r) {
    if (waits(slots_[r]) == wait) names += (names.empty() ? "" : ", ") + std::to_string(r);
  }
  return names;
}

void ReplicaRendezvous::throw_broken(size_t replica) {
  {
    const std::lock_guard lock(mutex_);
    if (common_) std::rethrow_exception(failure_);
  }
  throw Error(
      Status{.code = Code::Cancelled,
             .message = fmt::format("[run] replica {} stops because another one failed", replica),
             .derived = true});
}

void ReplicaRendezvous::fail(std::exception_ptr exception) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(exception);
  }
  break_off();
}

void ReplicaRendezvous::leave(size_t replica) {
  slots_[replica].awaits = kNothing;
  slots_[replica].left = true;
  const uint32_t counts = counts_.fetch_add(kLeft) + kLeft;
  if (replica == 0) announce();
  if (in_turns_) pass_turn(replica + 1);
  if (arrived(counts) > 0 && arrived(counts) + left(counts) == size()) break_off_unequal();
}

void ReplicaRendezvous::rethrow_failure() {
  if (failure_ == nullptr) return;
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  thrown_ = nullptr;
  std::rethrow_exception(failure);
}

}  // namespace cohort::internal
