#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace cohort::internal {

// Asks all members of a group which call they have begun, when a member has waited for long. A
// question goes from member to member over open connections, and each answer goes back the way that
// the question came, so no connection is opened for it. This class keeps the books of questions and
// answers; the group sends them. Thread-safe.
class ProgressQuery {
 public:
  // What a member answers.
  struct Standing {
    uint64_t begun = 0;  // how many calls
    std::string activity = {};
  };
  using Standings = std::map<int, Standing>;  // by rank

  // The number of a new question. Answers to earlier questions do not count any more.
  uint64_t ask();
  void answered(uint64_t question, int rank, Standing standing);
  Standings answers() const;

  // `from` passed on a question of `asker`. Returns whether it came for the first time.
  bool note(int asker, uint64_t question, int from);
  // The member that an answer to that question goes to; nullopt after a newer question.
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
