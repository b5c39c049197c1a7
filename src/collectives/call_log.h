#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>

#include "base/mutex.h"
#include "collectives/call.h"

namespace cohort::internal {

// The calls that this member has made lately, and those that other members have announced or
// refused. Thread-safe.
class CallLog {
 public:
  // Two members that disagree on one call.
  struct Difference {
    Call mine;
    int other = 0;
    Call theirs;
  };

  // A call begins. What others have announced of it before is compared.
  std::optional<Difference> begin(const Call& mine);
  void end();
  // Another member makes `theirs`. Compared now, or when this member gets that far.
  std::optional<Difference> announced(int other, const Call& theirs);

  // Another member was asked for an invalid call. It owes the others a call with that number.
  struct Refusal {
    int other = 0;
    uint64_t number = 0;
    std::string why = {};
    std::chrono::steady_clock::time_point when = std::chrono::steady_clock::now();
  };
  void refused(Refusal refusal);
  // A refusal of that call or an earlier one, in whose place the member has announced no other call
  // for that time.
  std::optional<Refusal> refusal(uint64_t number, std::chrono::nanoseconds age) const;

  // That member's last refusal, if it has announced no other call in its place.
  std::optional<Refusal> refusal_of(int other) const;

  // How many calls have begun; the last of them.
  uint64_t begun() const;
  Call last() const;
  // How many calls have ended: all with a lower number.
  uint64_t ended() const;
  // "in call 7, all_reduce(Sum) of float32 (3,), for 2.5 s", or what ended when.
  std::string activity() const;

 private:
  static constexpr size_t kRemembered = 64;
  using Seconds = double;
  static Seconds now();

  mutable Mutex mutex_;
  // Guarded by mutex_:
  std::array<Call, kRemembered> recent_;  // by number
  uint64_t begun_ = 0;                    // how many
  bool is_running_ = false;
  Seconds since_ = now();
  std::map<std::pair<uint64_t, int>, Call> announced_;  // by number and member; not begun here
  std::map<int, Refusal> refusals_;                     // by member
  // Whether refusals_ has any: a wait asks again and again.
  std::atomic<bool> has_refusals_{false};
};

}  // namespace cohort::internal
