#include "collectives/call_log.h"

#include <fmt/format.h>

#include <ctime>

namespace cohort::internal {

// Some milliseconds do not matter here, but what looking at the clock costs does.
CallLog::Seconds CallLog::now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::optional<CallLog::Difference> CallLog::begin(const Call& mine) {
  const std::lock_guard lock(mutex_);
  recent_[mine.number % kRemembered] = mine;
  begun_ = mine.number + 1;
  is_running_ = true;
  since_ = now();
  std::optional<Difference> difference;
  while (!announced_.empty() && announced_.begin()->first.first <= mine.number) {
    const auto& [key, theirs] = *announced_.begin();
    if (key.first == mine.number && !difference && !agree(theirs, mine)) {
      difference = Difference{mine, key.second, theirs};
    }
    announced_.erase(announced_.begin());
  }
  return difference;
}

void CallLog::end() {
  const std::lock_guard lock(mutex_);
  is_running_ = false;
  since_ = now();
}

std::optional<CallLog::Difference> CallLog::announced(int other, const Call& theirs) {
  const std::lock_guard lock(mutex_);
  const auto refused = refusals_.find(other);
  if (refused != refusals_.end() && refused->second.number <= theirs.number) {
    refusals_.erase(refused);
    has_refusals_ = !refusals_.empty();
  }
  if (theirs.number >= begun_) {
    announced_.try_emplace({theirs.number, other}, theirs);
    return std::nullopt;
  }
  const Call& mine = recent_[theirs.number % kRemembered];
  const bool forgotten = mine.number != theirs.number;
  if (forgotten || agree(theirs, mine)) return std::nullopt;
  return Difference{mine, other, theirs};
}

void CallLog::refused(Refusal refusal) {
  const std::lock_guard lock(mutex_);
  const int other = refusal.other;
  refusals_.insert_or_assign(other, std::move(refusal));
  has_refusals_ = true;
}

std::optional<CallLog::Refusal> CallLog::refusal(uint64_t number,
                                                 std::chrono::nanoseconds age) const {
  if (!has_refusals_.load(std::memory_order_acquire)) return std::nullopt;
  const auto before = std::chrono::steady_clock::now() - age;
  const std::lock_guard lock(mutex_);
  for (const auto& [other, refusal] : refusals_) {
    if (refusal.number <= number && refusal.when <= before) return refusal;
  }
  return std::nullopt;
}

std::optional<CallLog::Refusal> CallLog::refusal_of(int other) const {
  const std::lock_guard lock(mutex_);
  const auto found = refusals_.find(other);
  return found != refusals_.end() ? std::optional(found->second) : std::nullopt;
}

uint64_t CallLog::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

Call CallLog::last() const {
  const std::lock_guard lock(mutex_);
  return begun_ == 0 ? Call{} : recent_[(begun_ - 1) % kRemembered];
}

uint64_t CallLog::ended() const {
  const std::lock_guard lock(mutex_);
  return is_running_ ? begun_ - 1 : begun_;
}

std::string CallLog::activity() const {
  const std::lock_guard lock(mutex_);
  const Seconds age = now() - since_;
  if (begun_ == 0) return fmt::format("it has not met the others, for {:.1f} s", age);
  const Call& last = recent_[(begun_ - 1) % kRemembered];
  const std::string text = fmt::format("call {}, {}", last.number, to_string(last));
  return is_running_
             ? fmt::format("it is in {}, for {:.1f} s", text, age)
             : fmt::format("it finished {} {:.1f} s ago, and has made no call since", text, age);
}

}  // namespace cohort::internal
