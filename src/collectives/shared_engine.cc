#include "collectives/shared_engine.h"

#include <algorithm>
#include <cstring>

#include "base/machine.h"
#include "kernels/reduce_elements.h"

namespace cohort::internal {

SharedBoard::SharedBoard(CollectiveGroup& group, std::byte* memory)
    : group_(group),
      chunks_(memory),
      members_(reinterpret_cast<MemberSlot*>(memory + static_cast<size_t>(group.size()) * kSlots *
                                                          kChunkBytes)),
      looks_(static_cast<unsigned>(group.size()) > core_count() ? 50 : 2000) {}

void SharedBoard::meet(const Call& call) {
  const uint64_t mine = fingerprint(call);
  MemberSlot::Coming& here = own().coming;
  here.fingerprints[call.number % 2].store(mine, std::memory_order_relaxed);
  here.sites[call.number % 2].store(call.site, std::memory_order_relaxed);
  // Publishes the fingerprint and the site as well.
  here.calls.store(call.number + 1, std::memory_order_release);
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == group_.rank()) continue;
    const MemberSlot::Coming& coming = members_[rank].coming;
    await(call, rank, coming.calls, call.number + 1);
    // A member gets at most one call ahead of others before it has to wait for them.
    if (coming.fingerprints[call.number % 2].load(std::memory_order_relaxed) != mine ||
        !same_site(coming.sites[call.number % 2].load(std::memory_order_relaxed), call.site)) {
      group_.differ(call, rank);
    }
  }
}

void SharedBoard::finish(const Call& call) {
  own().going.done.store(call.number + 1, std::memory_order_release);
  await_others(call, &MemberSlot::Going::done, call.number + 1);
}

void SharedBoard::await_long(const Call& call, int rank, const std::atomic<uint64_t>& counter,
                             uint64_t value) {
  const auto is_there = [&] { return counter.load(std::memory_order_acquire) >= value; };
  poll_in_group(group_, {.call = &call, .from = rank, .deadline = call.deadline}, is_there);
}

std::byte* SharedBoard::free_slot(uint64_t round) {
  const uint64_t number = first_ + round;
  // The slot was used kSlots rounds ago. The counters grow over all calls, so the first rounds of a
  // call wait for the last rounds of the call before.
  if (number >= kSlots) await_others(*call_, &MemberSlot::Going::taken, number - kSlots + 1);
  return slot(rank(), round);
}

void SharedBoard::put(uint64_t round, const std::byte* from, size_t bytes) {
  std::byte* const target = free_slot(round);
  if (bytes > 0) std::memcpy(target, from, bytes);
  put(round);
}

namespace {

// Results of this size have left the caches when the program reads them.
constexpr size_t kLargeBytes = size_t{8} << 20;

// The chunks of a call.
class Chunks {
 public:
  Chunks(SharedBoard& board, const Call& call, const Buffer& values)
      : values_(values),
        element_(static_cast<size_t>(size_of(call.dtype))),
        result_(static_cast<size_t>(size_of(reduced_dtype(call.op, call.dtype)))),
        rounds_(SharedBoard::chunks_of(values.bytes.size())) {
    board.begin(call, rounds_);
  }

  uint64_t rounds() const { return rounds_; }
  size_t element() const { return element_; }
  size_t result() const { return result_; }
  // Where a round's chunk begins, and where its results do.
  const std::byte* values(uint64_t round) const {
    return values_.bytes.data() + round * SharedBoard::kChunkBytes;
  }
  std::byte* results(uint64_t round, std::byte* out) const {
    return out + round * (SharedBoard::kChunkBytes / element_) * result_;
  }
  size_t bytes(uint64_t round) const {
    const size_t chunk = SharedBoard::kChunkBytes;
    return std::min(chunk, values_.bytes.size() - round * chunk);
  }
  int64_t count(uint64_t round) const { return static_cast<int64_t>(bytes(round) / element_); }

  // Calls put(round) for what is to be there some rounds before it is needed.
  template <typename Put>
  void put_ahead(uint64_t round, const Put& put) {
    for (; put_ < std::min(rounds_, round + kAhead); ++put_) put(put_);
  }

 private:
  // This is at most kSlots - 1: a member of Slices that begins a round has not yet taken the
  // results of the round before. With more chunks ahead all members would wait for each other.
  static constexpr uint64_t kAhead = 2;

  const Buffer& values_;
  const size_t element_;
  const size_t result_;
  const uint64_t rounds_;
  uint64_t put_ = 0;
};

// Every member adds up everything.
void reduce_everything(SharedBoard& board, const Call& call, const Buffer& values, std::byte* out) {
  Chunks chunks(board, call, values);
  std::vector<const std::byte*> sources(static_cast<size_t>(board.size()));
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    chunks.put_ahead(round, [&](uint64_t ahead) {
      board.put(ahead, chunks.values(ahead), chunks.bytes(ahead));
    });
    for (int rank = 0; rank < board.size(); ++rank) {
      // The own values are nearer where they came from.
      sources[static_cast<size_t>(rank)] =
          rank == board.rank() ? chunks.values(round) : board.chunk_of(rank, round);
    }
    reduce_elements({.op = call.op,
                     .dtype = call.dtype,
                     .sources = sources,
                     .target = chunks.results(round, out),
                     .past_caches = values.bytes.size() >= kLargeBytes},
                    0, chunks.count(round));
    board.taken(round);
  }
}

// Each member reduces a slice of every chunk. It puts in what the others reduce, adds to its own
// slice what they put in, leaves the result in its slot for them, and takes their results a round
// later, when they are likely to be there.
class Slices {
 public:
  Slices(SharedBoard& board, const Call& call, const Buffer& values, std::byte* out)
      : board_(board),
        call_(call),
        chunks_(board, call, values),
        out_(out),
        is_mean_(call.op == ReduceOp::Mean),
        sources_(static_cast<size_t>(board.size())) {}

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
    return slice_of(chunks_.count(round), rank, board_.size());
  }

  void put(uint64_t round) {
    const Slice mine = slice(board_.rank(), round);
    const size_t begin = static_cast<size_t>(mine.begin) * chunks_.element();
    const size_t end = static_cast<size_t>(mine.end) * chunks_.element();
    std::byte* const slot = board_.free_slot(round);
    const std::byte* const values = chunks_.values(round);
    std::memcpy(slot, values, begin);
    std::memcpy(slot + end, values + end, chunks_.bytes(round) - end);
    board_.put(round);
  }

  void reduce(uint64_t round) {
    for (int rank = 0; rank < board_.size(); ++rank) {
      sources_[static_cast<size_t>(rank)] =
          rank == board_.rank() ? chunks_.values(round) : board_.chunk_of(rank, round);
    }
    const Slice mine = slice(board_.rank(), round);
    const std::array targets{board_.slot(board_.rank(), round), chunks_.results(round, out_)};
    // The member that takes a mean divides it: a mean of integers has another size than their sum.
    reduce_elements_into(
        std::span(targets).first(is_mean_ ? 1 : 2),
        {.op = is_mean_ ? ReduceOp::Sum : call_.op, .dtype = call_.dtype, .sources = sources_},
        mine.begin, mine.end);
    board_.reduced(round);
  }

  void collect(uint64_t round) {
    for (int step = is_mean_ ? 0 : 1; step < board_.size(); ++step) {
      // Members begin with different slots, so that they do not all read the same memory at once.
      const int rank = (board_.rank() + step) % board_.size();
      if (step > 0) board_.await_reduced(rank, round);
      const Slice theirs = slice(rank, round);
      const auto begin = static_cast<size_t>(theirs.begin);
      const std::byte* const from = board_.slot(rank, round) + begin * chunks_.element();
      std::byte* const to = chunks_.results(round, out_) + begin * chunks_.result();
      if (is_mean_) {
        divide(call_.dtype, from, theirs.end - theirs.begin, board_.size(), to);
      } else {
        std::memcpy(
            to, from,
            static_cast<size_t>(theirs.end) * chunks_.element() - begin * chunks_.element());
      }
    }
    board_.taken(round);
  }

  SharedBoard& board_;
  const Call& call_;
  Chunks chunks_;
  std::byte* const out_;
  const bool is_mean_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

SharedEngine::SharedEngine(CollectiveGroup& group, std::shared_ptr<SharedSegment> segment)
    : Engine(group, Distance::SharedMemory),
      segment_(std::move(segment)),
      board_(group, segment_->data()) {}

void SharedEngine::all_reduce(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  if (table.choose(values.bytes.size()) == Algorithm::Everything) {
    reduce_everything(board_, call, values, out);
  } else {
    Slices(board_, call, values, out).run();
  }
}

void SharedEngine::reduce(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  // Only the root reduces.
  if (board_.rank() == call.root) return reduce_everything(board_, call, values, out);
  const Chunks chunks(board_, call, values);
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    board_.put(round, chunks.values(round), chunks.bytes(round));
    board_.taken(round);
  }
}

void SharedEngine::broadcast(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  const Chunks chunks(board_, call, values);
  const bool is_root = board_.rank() == call.root;
  for (uint64_t round = 0; round < chunks.rounds(); ++round) {
    if (is_root) {
      board_.put(round, chunks.values(round), chunks.bytes(round));
    } else {
      std::memcpy(out + round * SharedBoard::kChunkBytes, board_.chunk_of(call.root, round),
                  chunks.bytes(round));
    }
    board_.taken(round);
  }
  const size_t bytes = values.bytes.size();
  if (is_root && bytes > 0) std::memcpy(out, values.bytes.data(), bytes);
}

// A chunk has a part for each member, and that member reduces it.
void SharedEngine::reduce_scatter(const Call& call, const Buffer& values, std::byte* out) {
  board_.meet(call);
  const auto size = static_cast<size_t>(board_.size());
  const auto rank = static_cast<size_t>(board_.rank());
  const auto element = static_cast<size_t>(size_of(call.dtype));
  const auto result = static_cast<size_t>(size_of(reduced_dtype(call.op, call.dtype)));
  const size_t part = values.bytes.size() / size;
  // A share is whole cache lines, which hold whole elements of every dtype.
  const size_t share = SharedBoard::kChunkBytes / size / 64 * 64;  // of a chunk
  const uint64_t rounds = (part + share - 1) / share;
  board_.begin(call, rounds);
  std::vector<const std::byte*> sources(size);
  for (uint64_t round = 0; round < rounds; ++round) {
    const size_t at = round * share;
    const size_t length = std::min(share, part - at);
    std::byte* slot = board_.free_slot(round);
    for (size_t k = 0; k < size; ++k) {
      std::memcpy(slot + k * share, values.bytes.data() + k * part + at, length);
    }
    board_.put(round);
    for (size_t k = 0; k < size; ++k) {
      sources[k] = board_.chunk_of(static_cast<int>(k), round) + rank * share;
    }
    reduce_elements({.op = call.op,
                     .dtype = call.dtype,
                     .sources = sources,
                     .target = out + at / element * result},
                    0, static_cast<int64_t>(length / element));
    board_.taken(round);
  }
}

void SharedEngine::all_gather(const Call& call, const Buffer& own, const Allocate& allocate) {
  board_.meet(call);
  // First the sizes of all members, then their values.
  std::vector<size_t> sizes(static_cast<size_t>(board_.size()), own.bytes.size());
  board_.begin(call, 1);
  board_.put(0, reinterpret_cast<const std::byte*>(&sizes[0]), sizeof(size_t));
  for (int rank = 0; rank < board_.size(); ++rank) {
    if (rank == board_.rank()) continue;
    std::memcpy(&sizes[static_cast<size_t>(rank)], board_.chunk_of(rank, 0), sizeof(size_t));
  }
  board_.taken(0);
  std::byte* out = allocate(sizes);
  const uint64_t rounds = SharedBoard::chunks_of(*std::max_element(sizes.begin(), sizes.end()));
  board_.begin(call, rounds);
  for (uint64_t round = 0; round < rounds; ++round) {
    const size_t at = round * SharedBoard::kChunkBytes;
    const auto length = [&](size_t size) {
      return at < size ? std::min(SharedBoard::kChunkBytes, size - at) : 0;
    };
    board_.put(round, own.bytes.data() + (length(own.bytes.size()) > 0 ? at : 0),
               length(own.bytes.size()));
    std::byte* target = out;
    for (int rank = 0; rank < board_.size(); ++rank) {
      const size_t size = sizes[static_cast<size_t>(rank)];
      if (length(size) > 0) {
        std::memcpy(target + at, board_.chunk_of(rank, round), length(size));
      }
      target += size;
    }
    board_.taken(round);
  }
}

void SharedEngine::barrier(const Call& call) { board_.meet(call); }

void SharedEngine::allocate(const Call& call, PackMemory& pack) {
  const size_t each = (pack.bytes() + 4095) / 4096 * 4096;  // each member has whole pages
  Exchange exchange(group_, call);
  const auto segment =
      share_segment(exchange, std::max<size_t>(each, 1) * static_cast<size_t>(group_.size()));
  if (segment == nullptr) return Engine::allocate(call, pack);
  for (int rank = 0; rank < group_.size(); ++rank) {
    pack.all.push_back(segment->data() + static_cast<size_t>(rank) * each);
  }
  pack.sources.assign(pack.all.begin(), pack.all.end());
  pack.own = pack.all[static_cast<size_t>(group_.rank())];
  pack.holder = segment;
}

// Every member adds up its slice, from all packs into all packs.
void SharedEngine::all_reduce(const Call& call, PackMemory& pack) {
  if (pack.all.empty()) return Engine::all_reduce(call, pack);
  board_.meet(call);
  // After meet() all packs are written. After finish() no other member reads or writes this pack,
  // so that its owner may write the next gradients.
  const Slice mine = slice_of(pack.count(), group_.rank(), group_.size());
  reduce_elements_into(pack.all, {.op = call.op, .dtype = pack.dtype, .sources = pack.sources},
                       mine.begin, mine.end);
  board_.finish(call);
}

}  // namespace cohort::internal
