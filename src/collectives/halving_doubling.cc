#include <bit>
#include <cstring>

#include "base/raise.h"
#include "collectives/algorithms.h"

// Algorithms in which members work in pairs.

namespace cohort::internal {
namespace {

// Algorithms that work in pairs need a power of two of members. Therefore the first members form
// pairs: the second of a pair gives its values to the first beforehand and gets the result in the
// end. The active members take part in between, with new numbers.
class Fold {
 public:
  explicit Fold(Exchange& exchange) : exchange_(exchange) {
    active_ = static_cast<int>(std::bit_floor(static_cast<unsigned>(exchange.size())));
    extra_ = exchange.size() - active_;
    const int rank = exchange.rank();
    if (!is_pair()) {
      number_ = rank - extra_;
    } else {
      number_ = rank % 2 == 0 ? rank / 2 : -1;
    }
  }

  int active() const { return active_; }  // a power of two
  // This member's number among the active ones; -1 when it is not.
  int number() const { return number_; }
  int rank_of(int number) const { return number < extra_ ? 2 * number : number + extra_; }

  // The operand with the partner's values in it; on a member that is not active, the operand
  // itself.
  Numbers give(const Numbers& operand) {
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

  // Passes the result to the partner that is not active.
  void take(std::byte* out, size_t bytes) {
    if (!is_pair()) return;
    const int rank = exchange_.rank();
    if (number_ >= 0) return exchange_.send(rank + 1, kTake, copy_of({out, bytes}));
    const Buffer result = exchange_.receive(rank - 1, kTake, bytes);
    if (bytes > 0) std::memcpy(out, result.bytes.data(), bytes);
  }

 private:
  bool is_pair() const { return exchange_.rank() < 2 * extra_; }

  static constexpr uint64_t kGive = uint64_t{1} << 60;
  static constexpr uint64_t kTake = kGive + 1;

  Exchange& exchange_;
  int active_ = 1;
  int extra_ = 0;
  int number_ = 0;
};

// Active member m is to reduce chunk m of as many chunks as there are active members. In each step
// of the first half two members share a range of chunks: each sends the half that the other one
// goes on with. In the second half the finished chunks are exchanged with the same partners in the
// opposite order.
class HalvingDoubling {
 public:
  HalvingDoubling(Exchange& exchange, const Fold& fold, const Numbers& operand)
      : exchange_(exchange), fold_(fold), operand_(operand), partial_(operand.values) {}

  void run(std::byte* out) {
    for (int distance = fold_.active() / 2; distance > 0; distance /= 2) halve(distance);
    finished_ = {partial_};
    for (int distance = 1; distance < fold_.active(); distance *= 2) exchange_finished(distance);
    check_length();
    for (const Buffer& chunk : finished_) {
      if (!chunk.bytes.empty()) std::memcpy(out, chunk.bytes.data(), chunk.bytes.size());
      out += chunk.bytes.size();
    }
  }

 private:
  // Where chunk `number` begins.
  size_t border(int number) const {
    return number == fold_.active() ? operand_.values.bytes.size()
                                    : part_bytes(operand_, number, fold_.active()).begin;
  }
  // The part of `partial_`, which begins at chunk first_, that is chunks `begin` to `end`.
  Buffer chunks(int begin, int end) const {
    const size_t base = border(first_);
    return part_of(partial_, border(begin) - base, border(end) - base);
  }

  void halve(int distance) {
    const int partner = fold_.number() ^ distance;
    const bool keeps_lower = fold_.number() < partner;
    const int kept = keeps_lower ? first_ : first_ + distance;
    const int given = keeps_lower ? first_ + distance : first_;
    const auto step = static_cast<uint64_t>(distance);
    exchange_.send(fold_.rank_of(partner), step, chunks(given, given + distance));
    const Buffer mine = chunks(kept, kept + distance);
    const Buffer theirs = exchange_.receive(fold_.rank_of(partner), step, mine.bytes.size());
    partial_ = keeps_lower ? combine(operand_, mine, theirs) : combine(operand_, theirs, mine);
    first_ = kept;
  }

  void exchange_finished(int distance) {
    const int partner = fold_.number() ^ distance;
    const uint64_t step = kSecondHalf + static_cast<uint64_t>(distance);
    exchange_.send(fold_.rank_of(partner), step, finished_);
    std::vector<Buffer> theirs = exchange_.receive(fold_.rank_of(partner), step);
    if (fold_.number() < partner) {
      finished_.insert(finished_.end(), theirs.begin(), theirs.end());
    } else {
      finished_.insert(finished_.begin(), theirs.begin(), theirs.end());
    }
  }

  void check_length() const {
    size_t bytes = 0;
    for (const Buffer& chunk : finished_) bytes += chunk.bytes.size();
    if (bytes == operand_.values.bytes.size()) return;
    raise(Code::DataLoss, "[AllReduce] the members' results have {} bytes together instead of {}",
          bytes, operand_.values.bytes.size());
  }

  static constexpr uint64_t kSecondHalf = uint64_t{1} << 32;

  Exchange& exchange_;
  const Fold& fold_;
  const Numbers& operand_;
  Buffer partial_;
  int first_ = 0;                 // the chunk that partial_ begins with
  std::vector<Buffer> finished_;  // neighbouring chunks
};

}  // namespace

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

void halving_doubling_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out) {
  Fold fold(exchange);
  const Numbers folded = fold.give(operand);
  if (fold.number() >= 0) HalvingDoubling(exchange, fold, folded).run(out);
  fold.take(out, operand.values.bytes.size());
}

}  // namespace cohort::internal
