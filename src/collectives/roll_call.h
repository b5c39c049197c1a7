#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace cohort::internal {

// Who is where, when a member has waited for long: it asks everybody. A question goes from member
// to member over the connections that there are, and each answer goes back the way that the
// question came, so nobody has to connect for this. This is the book-keeping; the group sends.
// Thread-safe.
class RollCall {
 public:
  // What a member says of itself.
  struct Standing {
    uint64_t begun = 0;  // how many calls
    std::string activity = {};
  };
  using Standings = std::map<int, Standing>;  // by rank

  // A new question of this member's: its number. Answers to the one before do not count any more.
  uint64_t ask();
  void answered(uint64_t question, int rank, Standing standing);
  Standings answers() const;

  // A question of `asker`'s that `from` passed on: whether it came for the first time.
  bool note(int asker, uint64_t question, int from);
  // To whom an answer to that question goes; nullopt when there has been a newer one.
  std::optional<int> way_back(int asker, uint64_t question) const;

 private:
  struct Noted {
    uint64_t question = 0;
    int from = 0;
  };

  mutable Mutex mutex_;
  // Guarded by mutex_:
  uint64_t asked_ = 0;
  Standings answers_;
  std::map<int, Noted> noted_;  // the last question of each asker
};

}  // namespace cohort::internal
