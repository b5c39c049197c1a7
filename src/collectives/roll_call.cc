#include "collectives/roll_call.h"

namespace cohort::internal {

uint64_t RollCall::ask() {
  const std::lock_guard lock(mutex_);
  answers_.clear();
  return ++asked_;
}

void RollCall::answered(uint64_t question, int rank, Standing standing) {
  const std::lock_guard lock(mutex_);
  if (question == asked_) answers_[rank] = std::move(standing);
}

RollCall::Standings RollCall::answers() const {
  const std::lock_guard lock(mutex_);
  return answers_;
}

bool RollCall::note(int asker, uint64_t question, int from) {
  const std::lock_guard lock(mutex_);
  Noted& last = noted_[asker];
  if (last.question >= question) return false;
  last = {question, from};
  return true;
}

std::optional<int> RollCall::way_back(int asker, uint64_t question) const {
  const std::lock_guard lock(mutex_);
  const auto found = noted_.find(asker);
  if (found == noted_.end() || found->second.question != question) return std::nullopt;
  return found->second.from;
}

}  // namespace cohort::internal
