#pragma once

#include "collectives/algorithms.h"

namespace cohort::internal {

// Algorithms that work in pairs want a power of two of members. Of the first members, two by two,
// the second gives its values to the first beforehand and gets the result in the end; the others
// take part in between, numbered anew.
class Fold {
 public:
  explicit Fold(Exchange& exchange);

  int active() const { return active_; }  // a power of two
  // This member's number among the active ones; -1 when it is not.
  int number() const { return number_; }
  int rank_of(int number) const { return number < extra_ ? 2 * number : number + extra_; }

  // The operand with the partner's values in it; on a member that is not active itself.
  Numbers give(const Numbers& operand);
  // The result for the partner, from where it is.
  void take(std::byte* out, size_t bytes);

 private:
  bool is_pair() const { return exchange_.rank() < 2 * extra_; }

  static constexpr uint64_t kGive = uint64_t{1} << 60;
  static constexpr uint64_t kTake = kGive + 1;

  Exchange& exchange_;
  int active_ = 1;
  int extra_ = 0;
  int number_ = 0;
};

}  // namespace cohort::internal
