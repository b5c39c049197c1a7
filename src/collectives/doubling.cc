#include <cstring>

#include "collectives/fold.h"

namespace cohort::internal {

void doubling_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out) {
  Fold fold(exchange);
  const size_t bytes = operand.values.bytes.size();
  Buffer sum = fold.give(operand).values;
  if (fold.number() >= 0) {
    for (int distance = 1; distance < fold.active(); distance *= 2) {
      const int partner = fold.number() ^ distance;
      const auto step = static_cast<uint64_t>(distance);
      exchange.send(fold.rank_of(partner), step, sum);
      const Buffer theirs = exchange.receive(fold.rank_of(partner), step, bytes);
      // Both do the same: the lower one's values come first.
      sum = fold.number() < partner ? combine(operand, sum, theirs) : combine(operand, theirs, sum);
    }
    if (bytes > 0) std::memcpy(out, sum.bytes.data(), bytes);
  }
  fold.take(out, bytes);
}

void dissemination_barrier(Exchange& exchange) {
  const int size = exchange.size();
  for (int distance = 1; distance < size; distance *= 2) {
    const auto step = static_cast<uint64_t>(distance);
    exchange.send((exchange.rank() + distance) % size, step, Buffer{});
    exchange.receive_any((exchange.rank() - distance % size + size) % size, step);
  }
}

}  // namespace cohort::internal
