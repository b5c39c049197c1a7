#include <algorithm>

#include "base/raise.h"
#include "collectives/collective_group.h"
#include "collectives/engine.h"

// How a group ends: members leave, are lost or fail, and every member learns of it.

namespace cohort::internal {

void CollectiveGroup::throw_if_over(uint64_t call) const {
  if (!is_over(call)) return;
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  if (is_left_) {
    raise(Code::FailedPrecondition, "[Collective] {} has left the group", describe(rank_));
  }
  for (const auto& [rank, calls] : left_) {
    if (calls > call) continue;
    if (const auto refusal = refusal_of(rank, call)) throw Error(*refusal);
    throw_left(rank, calls, call);
  }
}

std::optional<Status> CollectiveGroup::refusal_of(int rank, uint64_t call) const {
  const auto refusal = log_.refusal_of(rank);
  const bool explains = refusal && refusal->number <= call && refusal->number != refused_;
  return explains ? std::optional(status_of(*refusal)) : std::nullopt;
}

void CollectiveGroup::throw_if_left(int rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = left_.find(rank);
  if (found != left_.end()) throw_left(rank, found->second);
}

void CollectiveGroup::throw_left(int rank, uint64_t calls, std::optional<uint64_t> call) const {
  const auto outer = outer_.lock();
  const Call last = outer ? outer->log_.last() : log_.last();
  const bool is_known = call && (outer || last.number == *call);
  const std::string mine = is_known
                               ? fmt::format("; {} makes {}, and all workers must make this call",
                                             describe(rank_), to_string(last))
                               : "";
  throw Error(Status{.code = Code::Unavailable,
                     .message = fmt::format("[Collective] {} has left the group, after {} calls{}",
                                            describe(rank), calls == 0 ? 0 : calls - 1, mine),
                     .origin = name_of(rank)});
}

void CollectiveGroup::fail(Status why) {
  if (const auto outer = outer_.lock()) outer->fail(why);
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || is_left_) return;
    failure_ = why;
    over_from_.store(0, std::memory_order_release);
  }
  tell_all(message(Kind::Failed, why));
  if (Engine* engine = met_engine_.load()) engine->group_failed(why);
}

void CollectiveGroup::tell_refusal(const CallLog::Refusal& refusal) {
  tell_all(message(Kind::Refused, refusal.other, refusal.number, refusal.why));
}

void CollectiveGroup::lost(int member, const Status& why) {
  const int rank = rank_of(member);
  if (rank == size()) return;
  {
    const std::lock_guard lock(mutex_);
    if (left_.contains(rank)) return;
  }
  if (const auto refusal = refusal_of(rank, UINT64_MAX)) return fail(*refusal);
  fail({.code = Code::Unavailable,
        .message = fmt::format("[Collective] lost {}; the group is closed, make a new one to go on",
                               describe(rank)),
        .origin = name_of(rank),
        .cause = std::make_shared<Status>(why)});
}

void CollectiveGroup::member_left(int rank, uint64_t calls) {
  std::optional<Status> failure;
  {
    const std::lock_guard lock(mutex_);
    if (!left_.emplace(rank, calls).second) return;
    failure = failure_;
    over_from_.store(std::min(over_from_.load(), calls), std::memory_order_release);
  }
  // As in leave(): the thread that found the failure may not have sent it yet, and a member that
  // learns only of the leaving would blame the member that leaves.
  if (failure) tell_all(message(Kind::Failed, *failure));
  // This message may reach a member before the refusal that the leaving member sent itself.
  if (const auto refusal = log_.refusal_of(rank)) tell_refusal(*refusal);
  tell_all(message(Kind::Left, rank, calls));
}

void CollectiveGroup::leave() {
  const uint64_t calls = log_.ended();
  std::optional<Status> failure;
  {
    const std::lock_guard lock(mutex_);
    if (is_left_) return;
    is_left_ = true;
    failure = failure_;
    over_from_.store(0, std::memory_order_release);
  }
  // The thread that found the failure may not have sent it yet, and a member that learns only of
  // this member's leaving would blame this member.
  if (failure) tell_all(message(Kind::Failed, *failure));
  tell_all(message(Kind::Left, rank_, calls));
  if (Engine* engine = met_engine_.load()) engine->group_left();
  links_->detach(id_);
}

// Sends to all connected members, which pass the message on. Members that are gone are skipped.
void CollectiveGroup::tell_all(const Message& message, int except) {
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || rank == except || !links_->is_connected(member(rank))) continue;
    (void)capture_status([&] { links_->send(member(rank), message); });
  }
}

}  // namespace cohort::internal
