#include <algorithm>
#include <cstring>

#include "collectives/arithmetic.h"
#include "collectives/slice.h"
#include "collectives/staging.h"
#include "tensor/reduce_elements.h"

namespace cohort::internal {
namespace {

// Results from this size on are not in the caches any more when somebody reads them.
constexpr size_t kLargeBytes = size_t{8} << 20;

// The chunks of a call, put in some rounds before they are needed.
class Chunks {
 public:
  Chunks(Staging& staging, const Call& call, const Buffer& values)
      : staging_(staging),
        values_(values),
        element_(static_cast<size_t>(size_of(call.dtype))),
        result_(static_cast<size_t>(size_of(reduced_dtype(call.op, call.dtype)))),
        rounds_(chunks_of(values.bytes.size())) {
    staging_.begin(call, rounds_);
  }

  uint64_t rounds() const { return rounds_; }
  // Where a round's chunk begins, and where its results do.
  const std::byte* values(uint64_t round) const {
    return values_.bytes.data() + round * Staging::kChunkBytes;
  }
  std::byte* results(uint64_t round, std::byte* out) const {
    return out + round * (Staging::kChunkBytes / element_) * result_;
  }
  int64_t count(uint64_t round) const { return static_cast<int64_t>(bytes(round) / element_); }

  void put_ahead(uint64_t round) {
    for (; put_ < std::min(rounds_, round + kAhead); ++put_) {
      staging_.put(put_, values(put_), bytes(put_));
    }
  }

 private:
  static constexpr uint64_t kAhead = 2;

  size_t bytes(uint64_t round) const {
    return std::min(Staging::kChunkBytes, values_.bytes.size() - round * Staging::kChunkBytes);
  }

  Staging& staging_;
  const Buffer& values_;
  const size_t element_;
  const size_t result_;
  const uint64_t rounds_;
  uint64_t put_ = 0;
};

}  // namespace

void reduce_everything(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  Chunks chunks(staging, call, values);
  std::vector<const std::byte*> sources(static_cast<size_t>(staging.size()));
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    chunks.put_ahead(round);
    for (int rank = 0; rank < staging.size(); ++rank) {
      // The own values are nearer where they came from.
      sources[static_cast<size_t>(rank)] =
          rank == staging.rank() ? chunks.values(round) : staging.chunk_of(rank, round);
    }
    reduce_elements({.op = call.op,
                     .dtype = call.dtype,
                     .sources = sources,
                     .target = chunks.results(round, out),
                     .past_caches = values.bytes.size() >= kLargeBytes},
                    0, chunks.count(round));
    staging.taken(round);
  }
}

void reduce_slices(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  Chunks chunks(staging, call, values);
  const int size = staging.size();
  const auto result = static_cast<size_t>(size_of(reduced_dtype(call.op, call.dtype)));
  const auto element = static_cast<size_t>(size_of(call.dtype));
  const bool is_mean = call.op == ReduceOp::Mean;
  std::vector<const std::byte*> sources(static_cast<size_t>(size));
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    chunks.put_ahead(round);
    for (int rank = 0; rank < size; ++rank) {
      sources[static_cast<size_t>(rank)] = staging.chunk_of(rank, round);
    }
    const Slice mine = slice_of(chunks.count(round), staging.rank(), size);
    // Others read other slices of this slot: the own one may be overwritten.
    std::byte* const slot = staging.slot(staging.rank(), round);
    reduce_elements_into(
        {&slot, 1},
        {.op = is_mean ? ReduceOp::Sum : call.op, .dtype = call.dtype, .sources = sources},
        mine.begin, mine.end);
    staging.reduced(round);
    for (int step = 0; step < size; ++step) {
      const int rank = (staging.rank() + step) % size;
      if (rank != staging.rank()) staging.await_reduced(rank, round);
      const Slice slice = slice_of(chunks.count(round), rank, size);
      const auto begin = static_cast<size_t>(slice.begin);
      const std::byte* sums = staging.slot(rank, round) + begin * element;
      std::byte* target = chunks.results(round, out) + begin * result;
      if (is_mean) {
        divide(call.dtype, sums, slice.end - slice.begin, size, target);
      } else {
        std::memcpy(target, sums, static_cast<size_t>(slice.end - slice.begin) * element);
      }
    }
    staging.taken(round);
  }
}

}  // namespace cohort::internal
