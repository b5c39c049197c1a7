#include "distribute/replica_meeting.h"

#include <utility>

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr uint32_t kArrived = 1;
constexpr uint32_t kLeft = 1u << 16;
constexpr uint32_t kBroken = 1u << 31;

size_t arrived(uint32_t counts) { return counts & 0xffff; }
size_t left(uint32_t counts) { return counts >> 16; }

}  // namespace

ReplicaMeeting::ReplicaMeeting(size_t replicas)
    : waiting_(replicas), seats_(replicas), owns_(replicas) {}

void ReplicaMeeting::begin(const GraphBuilder* shared_graph) {
  counts_ = 0;
  phase_ = 0;
  turn_ = 0;
  shared_graph_ = shared_graph;
  in_turns_ = shared_graph != nullptr;
  thrown_ = nullptr;
  failure_ = nullptr;
  unequal_ = false;
  for (Seat& seat : seats_) {
    seat.phase = 0;
    seat.waiting = false;
    seat.left = false;
  }
}

bool ReplicaMeeting::enter(size_t replica) {
  await_turn(replica);
  return !in_turns_ || turn_.load() != kBroken;
}

void ReplicaMeeting::meet(size_t replica, const Call& call, const Work& once, const Work& each) {
  Seat& seat = seats_[replica];
  seat.call = call;
  seat.has_once = static_cast<bool>(once);
  seat.has_each = static_cast<bool>(each);
  arrive(replica);
  if (!mismatch_.ok()) throw Error(mismatch_);
  if (once) {
    if (replica == 0) {
      run_once(once);
    } else {
      await(replica);
    }
  }
  if (each && thrown_ == nullptr) run_each(replica, each);
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
}

void ReplicaMeeting::arrive(size_t replica) {
  if ((phase_.load(std::memory_order_acquire) & kBroken) != 0) throw_broken(replica);
  Seat& seat = seats_[replica];
  seat.waiting = true;
  const uint32_t counts = counts_.fetch_add(kArrived) + kArrived;
  if (arrived(counts) == size()) {
    open();
    publish(replica);
    await_turn(replica);
  } else {
    if (replica == 0) announce();
    if (arrived(counts) + left(counts) == size()) break_off_unequal();
    await(replica);
  }
  seat.waiting = false;
}

void ReplicaMeeting::open() {
  for (size_t r = 0; r < size(); ++r) owns_[r] = seats_[r].call.own;
  thrown_ = nullptr;
  finished_ = 0;
  check_calls();
  counts_.fetch_sub(static_cast<uint32_t>(size()) * kArrived);
}

void ReplicaMeeting::check_calls() {
  mismatch_ = {};
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

void ReplicaMeeting::run_once(const Work& once) {
  try {
    once(owns_);
  } catch (...) {
    thrown_ = std::current_exception();
  }
  publish(0);
}

void ReplicaMeeting::run_each(size_t replica, const Work& each) {
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

void ReplicaMeeting::publish(size_t replica) {
  ++seats_[replica].phase;
  phase_.fetch_add(1, std::memory_order_release);
  phase_.notify_all();
  if (in_turns_) pass_turn(0);
}

void ReplicaMeeting::await(size_t replica) {
  const uint32_t before = seats_[replica].phase++;
  if (in_turns_ && phase_.load() == before) pass_turn(replica + 1);
  // What has happened has, even if the run was broken off afterwards.
  if (waiting_.while_equal(phase_, before) == (before | kBroken)) throw_broken(replica);
  await_turn(replica);
}

void ReplicaMeeting::await_turn(size_t replica) {
  if (!in_turns_) return;
  const auto own = static_cast<uint32_t>(replica);
  for (uint32_t turn = turn_.load(); turn != own && turn != kBroken;) {
    turn = waiting_.while_equal(turn_, turn);
  }
}

void ReplicaMeeting::pass_turn(size_t next) {
  if (turn_.load() == kBroken) return;
  turn_ = static_cast<uint32_t>(next);
  turn_.notify_all();
}

void ReplicaMeeting::break_off() {
  phase_.fetch_or(kBroken);
  phase_.notify_all();
  turn_ = kBroken;
  turn_.notify_all();
  announce();
}

void ReplicaMeeting::break_off_unequal() {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) {
      unequal_ = true;
      failure_ = std::make_exception_ptr(Error(
          Code::FailedPrecondition,
          fmt::format("[run] replicas {} wait in a call for replicas {}, which have ended: all "
                      "replicas must make the same calls of merge_call, all_reduce and all_gather",
                      replicas_that([](const Seat& seat) { return seat.waiting.load(); }),
                      replicas_that([](const Seat& seat) { return !seat.waiting.load(); }))));
    }
  }
  break_off();
}

std::string ReplicaMeeting::replicas_that(bool (*holds)(const Seat&)) const {
  std::string names;
  for (size_t r = 0; r < size(); ++r) {
    if (holds(seats_[r])) names += (names.empty() ? "" : ", ") + std::to_string(r);
  }
  return names;
}

void ReplicaMeeting::throw_broken(size_t replica) {
  {
    const std::lock_guard lock(mutex_);
    if (unequal_) std::rethrow_exception(failure_);
  }
  throw Error(
      Status{.code = Code::Cancelled,
             .message = fmt::format("[run] replica {} stops because another one failed", replica),
             .derived = true});
}

void ReplicaMeeting::fail(size_t, std::exception_ptr exception) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(exception);
  }
  break_off();
}

void ReplicaMeeting::leave(size_t replica) {
  seats_[replica].waiting = false;
  seats_[replica].left = true;
  const uint32_t counts = counts_.fetch_add(kLeft) + kLeft;
  if (replica == 0) announce();
  if (in_turns_) pass_turn(replica + 1);
  if (arrived(counts) > 0 && arrived(counts) + left(counts) == size()) break_off_unequal();
}

void ReplicaMeeting::rethrow_failure() {
  if (failure_ == nullptr) return;
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  thrown_ = nullptr;
  std::rethrow_exception(failure);
}

bool ReplicaMeeting::await_first(const std::function<bool()>& ready) {
  watchers_.fetch_add(1);
  std::unique_lock lock(mutex_);
  const Seat& first = seats_.front();
  announced_.wait(lock, [&] {
    return ready() || first.waiting || first.left || (phase_.load() & kBroken) != 0;
  });
  watchers_.fetch_sub(1);
  return ready();
}

void ReplicaMeeting::announce() {
  if (watchers_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }
  announced_.notify_all();
}

}  // namespace cohort::internal
