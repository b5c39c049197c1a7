#include <algorithm>
#include <array>
#include <cstring>

#include "collectives/shared_engine.h"
#include "kernels/reduce_elements.h"

namespace cohort::internal {

std::byte* Staging::free_slot(uint64_t round) {
  const uint64_t number = first_ + round;
  if (number >= kSlots) {
    const auto taken = [](MemberSlot & slot) -> auto& { return slot.going.taken; };
    board_.await_others(*call_, taken, number - kSlots + 1);
  }
  return slot(rank(), round);
}

void Staging::put(uint64_t round, const std::byte* from, size_t bytes) {
  std::byte* const target = free_slot(round);
  if (bytes > 0) std::memcpy(target, from, bytes);
  put(round);
}

namespace {

// The chunks of a call.
class Chunks {
 public:
  Chunks(Staging& staging, const Call& call, const Buffer& values)
      : values_(values),
        element_(static_cast<size_t>(size_of(call.dtype))),
        result_(static_cast<size_t>(size_of(reduced_dtype(call.op, call.dtype)))),
        rounds_(Staging::chunks_of(values.bytes.size())) {
    staging.begin(call, rounds_);
  }

  uint64_t rounds() const { return rounds_; }
  size_t element() const { return element_; }
  size_t result() const { return result_; }
  // Where a round's chunk begins, and where its results do.
  const std::byte* values(uint64_t round) const {
    return values_.bytes.data() + round * Staging::kChunkBytes;
  }
  std::byte* results(uint64_t round, std::byte* out) const {
    return out + round * (Staging::kChunkBytes / element_) * result_;
  }
  size_t bytes(uint64_t round) const {
    const size_t chunk = Staging::kChunkBytes;
    return std::min(chunk, values_.bytes.size() - round * chunk);
  }
  int64_t count(uint64_t round) const { return static_cast<int64_t>(bytes(round) / element_); }

  // Calls put(round) for what is to be there some rounds before it is needed.
  template <typename Put>
  void put_ahead(uint64_t round, const Put& put) {
    for (; put_ < std::min(rounds_, round + kAhead); ++put_) put(put_);
  }

 private:
  static constexpr uint64_t kAhead = 2;

  const Buffer& values_;
  const size_t element_;
  const size_t result_;
  const uint64_t rounds_;
  uint64_t put_ = 0;
};

}  // namespace

void staged_reduce(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  // Only the root reduces.
  if (staging.rank() == call.root) return reduce_everything(staging, call, values, out);
  const Chunks chunks(staging, call, values);
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    staging.put(round, chunks.values(round), chunks.bytes(round));
    staging.taken(round);
  }
}

void staged_broadcast(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  const Chunks chunks(staging, call, values);
  const bool is_root = staging.rank() == call.root;
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    if (is_root) {
      staging.put(round, chunks.values(round), chunks.bytes(round));
    } else {
      std::memcpy(out + round * Staging::kChunkBytes, staging.chunk_of(call.root, round),
                  chunks.bytes(round));
    }
    staging.taken(round);
  }
  const size_t bytes = values.bytes.size();
  if (is_root && bytes > 0) std::memcpy(out, values.bytes.data(), bytes);
}

void staged_all_gather(Staging& staging, const Call& call, const Buffer& own,
                       const std::function<std::byte*(std::span<const size_t>)>& allocate) {
  // First the sizes of all members, then their values.
  std::vector<size_t> sizes(static_cast<size_t>(staging.size()), own.bytes.size());
  staging.begin(call, 1);
  staging.put(0, reinterpret_cast<const std::byte*>(&sizes[0]), sizeof(size_t));
  for (int rank = 0; rank < staging.size(); ++rank) {
    if (rank == staging.rank()) continue;
    std::memcpy(&sizes[static_cast<size_t>(rank)], staging.chunk_of(rank, 0), sizeof(size_t));
  }
  staging.taken(0);
  std::byte* out = allocate(sizes);
  const uint64_t rounds = Staging::chunks_of(*std::max_element(sizes.begin(), sizes.end()));
  staging.begin(call, rounds);
  for (uint64_t round = 0; round < rounds; ++round) {
    const size_t at = round * Staging::kChunkBytes;
    const auto length = [&](size_t size) {
      return at < size ? std::min(Staging::kChunkBytes, size - at) : 0;
    };
    staging.put(round, own.bytes.data() + (length(own.bytes.size()) > 0 ? at : 0),
                length(own.bytes.size()));
    std::byte* target = out;
    for (int rank = 0; rank < staging.size(); ++rank) {
      const size_t size = sizes[static_cast<size_t>(rank)];
      if (length(size) > 0) {
        std::memcpy(target + at, staging.chunk_of(rank, round), length(size));
      }
      target += size;
    }
    staging.taken(round);
  }
}

// A chunk has a part for each member, and that member reduces it.
void staged_reduce_scatter(Staging& staging, const Call& call, const Buffer& values,
                           std::byte* out) {
  const auto size = static_cast<size_t>(staging.size());
  const auto rank = static_cast<size_t>(staging.rank());
  const auto element = static_cast<size_t>(size_of(call.dtype));
  const auto result = static_cast<size_t>(size_of(reduced_dtype(call.op, call.dtype)));
  const size_t part = values.bytes.size() / size;
  const size_t share = Staging::kChunkBytes / size / 64 * 64;  // of a chunk
  const uint64_t rounds = (part + share - 1) / share;
  staging.begin(call, rounds);
  std::vector<const std::byte*> sources(size);
  for (uint64_t round = 0; round < rounds; ++round) {
    const size_t at = round * share;
    const size_t length = std::min(share, part - at);
    std::byte* slot = staging.free_slot(round);
    for (size_t k = 0; k < size; ++k) {
      std::memcpy(slot + k * share, values.bytes.data() + k * part + at, length);
    }
    staging.put(round);
    for (size_t k = 0; k < size; ++k) {
      sources[k] = staging.chunk_of(static_cast<int>(k), round) + rank * share;
    }
    reduce_elements({.op = call.op,
                     .dtype = call.dtype,
                     .sources = sources,
                     .target = out + at / element * result},
                    0, static_cast<int64_t>(length / element));
    staging.taken(round);
  }
}

namespace {

// Results of this size have left the caches when the program reads them.
constexpr size_t kLargeBytes = size_t{8} << 20;

// Each member reduces a slice of every chunk. It puts in what the others reduce, adds to its own
// slice what they put in, leaves the result in its slot for them, and takes their results a round
// later, when they are likely to be there.
class Slices {
 public:
  Slices(Staging& staging, const Call& call, const Buffer& values, std::byte* out)
      : staging_(staging),
        call_(call),
        chunks_(staging, call, values),
        out_(out),
        is_mean_(call.op == ReduceOp::Mean),
        sources_(static_cast<size_t>(staging.size())) {}

  void run() {
    for (uint64_t round = 0; round < chunks_.rounds(); ++round) {
      chunks_.put_ahead(round, [this](uint64_t ahead) { put(ahead); });
      reduce(round);
      if (round > 0) collect(round - 1);
    }
    if (chunks_.rounds() > 0) collect(chunks_.rounds() - 1);
  }

 private:
  Slice slice(int rank, uint64_t round) const {
    return slice_of(chunks_.count(round), rank, staging_.size());
  }

  void put(uint64_t round) {
    const Slice mine = slice(staging_.rank(), round);
    const size_t begin = static_cast<size_t>(mine.begin) * chunks_.element();
    const size_t end = static_cast<size_t>(mine.end) * chunks_.element();
    std::byte* const slot = staging_.free_slot(round);
    const std::byte* const values = chunks_.values(round);
    std::memcpy(slot, values, begin);
    std::memcpy(slot + end, values + end, chunks_.bytes(round) - end);
    staging_.put(round);
  }

  void reduce(uint64_t round) {
    for (int rank = 0; rank < staging_.size(); ++rank) {
      sources_[static_cast<size_t>(rank)] =
          rank == staging_.rank() ? chunks_.values(round) : staging_.chunk_of(rank, round);
    }
    const Slice mine = slice(staging_.rank(), round);
    const std::array targets{staging_.slot(staging_.rank(), round), chunks_.results(round, out_)};
    // The member that takes a mean divides it: a mean of integers has another size than their sum.
    reduce_elements_into(
        std::span(targets).first(is_mean_ ? 1 : 2),
        {.op = is_mean_ ? ReduceOp::Sum : call_.op, .dtype = call_.dtype, .sources = sources_},
        mine.begin, mine.end);
    staging_.reduced(round);
  }

  void collect(uint64_t round) {
    for (int step = is_mean_ ? 0 : 1; step < staging_.size(); ++step) {
      const int rank = (staging_.rank() + step) % staging_.size();
      if (step > 0) staging_.await_reduced(rank, round);
      const Slice theirs = slice(rank, round);
      const auto begin = static_cast<size_t>(theirs.begin);
      const std::byte* const from = staging_.slot(rank, round) + begin * chunks_.element();
      std::byte* const to = chunks_.results(round, out_) + begin * chunks_.result();
      if (is_mean_) {
        divide(call_.dtype, from, theirs.end - theirs.begin, staging_.size(), to);
      } else {
        std::memcpy(
            to, from,
            static_cast<size_t>(theirs.end) * chunks_.element() - begin * chunks_.element());
      }
    }
    staging_.taken(round);
  }

  Staging& staging_;
  const Call& call_;
  Chunks chunks_;
  std::byte* const out_;
  const bool is_mean_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

void reduce_everything(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  Chunks chunks(staging, call, values);
  std::vector<const std::byte*> sources(static_cast<size_t>(staging.size()));
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    chunks.put_ahead(round, [&](uint64_t ahead) {
      staging.put(ahead, chunks.values(ahead), chunks.bytes(ahead));
    });
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
  Slices(staging, call, values, out).run();
}

}  // namespace cohort::internal
