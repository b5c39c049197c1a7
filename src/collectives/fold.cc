#include "collectives/fold.h"

#include <bit>
#include <cstring>

namespace cohort::internal {

Fold::Fold(Exchange& exchange) : exchange_(exchange) {
  active_ = static_cast<int>(std::bit_floor(static_cast<unsigned>(exchange.size())));
  extra_ = exchange.size() - active_;
  const int rank = exchange.rank();
  if (!is_pair()) {
    number_ = rank - extra_;
  } else {
    number_ = rank % 2 == 0 ? rank / 2 : -1;
  }
}

Numbers Fold::give(const Numbers& operand) {
  if (!is_pair()) return operand;
  const int rank = exchange_.rank();
  if (number_ < 0) {
    exchange_.send(rank - 1, kGive, operand.values);
    return operand;
  }
  Numbers both = operand;
  const Buffer given = exchange_.receive(rank + 1, kGive, operand.values.bytes.size());
  both.values = combine(operand, operand.values, given);
  return both;
}

void Fold::take(std::byte* out, size_t bytes) {
  if (!is_pair()) return;
  const int rank = exchange_.rank();
  if (number_ >= 0) return exchange_.send(rank + 1, kTake, copy_of({{out, bytes}, nullptr}));
  const Buffer result = exchange_.receive(rank - 1, kTake, bytes);
  if (bytes > 0) std::memcpy(out, result.bytes.data(), bytes);
}

}  // namespace cohort::internal
