// How a run's meetings end when not all replicas come.

#include <utility>

#include "base/raise.h"
#include "distribute/replica_rendezvous.h"

namespace cohort::internal {

void ReplicaRendezvous::give_up(size_t replica, uint32_t before) {
  uint32_t counts = counts_.load();
  do {
    // The last one has come: the meeting is about to open, or has opened.
    if (phase_.load() != before || arrived(counts) == size() || arrived(counts) == 0) return;
  } while (!counts_.compare_exchange_weak(counts, counts - kArrived));
  const Call& call = seats_[replica].call;
  break_off_with(
      {Code::DeadlineExceeded,
       fmt::format("[{}] replica {} has waited {} s for replicas {}; CommunicationOptions sets how "
                   "long a call may take",
                   call.what, replica, call.timeout.count(), replicas_that(false))});
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

bool ReplicaRendezvous::waits(const Seat& seat) const {
  return seat.awaits.load() == (phase_.load() & ~kBroken);
}

std::string ReplicaRendezvous::replicas_that(bool wait) const {
  std::string names;
  for (size_t r = 0; r < size(); ++r) {
    if (waits(seats_[r]) == wait) names += (names.empty() ? "" : ", ") + std::to_string(r);
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

void ReplicaRendezvous::fail(size_t, std::exception_ptr exception) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) failure_ = std::move(exception);
  }
  break_off();
}

void ReplicaRendezvous::leave(size_t replica) {
  seats_[replica].awaits = kNothing;
  seats_[replica].left = true;
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
