#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "collectives/call.h"

namespace cohort::internal {

// Which calls this member has made lately, and which ones others have announced. Thread-safe.
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

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::array<Call, kRemembered> recent_;  // by number
  uint64_t begun_ = 0;                    // how many
  bool is_running_ = false;
  Seconds since_ = now();
  std::map<std::pair<uint64_t, int>, Call> announced_;  // by number and member; not begun here
};

}  // namespace cohort::internal
