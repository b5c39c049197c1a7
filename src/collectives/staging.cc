#include "collectives/staging.h"

#include <algorithm>
#include <cstring>

#include "collectives/arithmetic.h"
#include "tensor/reduce_elements.h"

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

void staged_reduce(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  // The root alone has work to do.
  if (staging.rank() == call.root) return reduce_everything(staging, call, values, out);
  const size_t bytes = values.bytes.size();
  const uint64_t rounds = Staging::chunks_of(bytes);
  staging.begin(call, rounds);
  for (uint64_t round = 0; round < rounds; ++round) {
    const size_t at = round * Staging::kChunkBytes;
    staging.put(round, values.bytes.data() + at, std::min(Staging::kChunkBytes, bytes - at));
    staging.taken(round);
  }
}

void staged_broadcast(Staging& staging, const Call& call, const Buffer& values, std::byte* out) {
  const size_t bytes = values.bytes.size();
  const uint64_t rounds = Staging::chunks_of(bytes);
  staging.begin(call, rounds);
  for (uint64_t round = 0; round < rounds; ++round) {
    const size_t at = round * Staging::kChunkBytes;
    const size_t length = std::min(Staging::kChunkBytes, bytes - at);
    if (staging.rank() == call.root) {
      staging.put(round, values.bytes.data() + at, length);
    } else {
      std::memcpy(out + at, staging.chunk_of(call.root, round), length);
    }
    staging.taken(round);
  }
  if (staging.rank() == call.root && bytes > 0) std::memcpy(out, values.bytes.data(), bytes);
}

void staged_all_gather(Staging& staging, const Call& call, const Buffer& own,
                       const std::function<std::byte*(std::span<const size_t>)>& allocate) {
  // First how much everybody has, then that.
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

// A chunk has a part for each member, which that one reduces.
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

}  // namespace cohort::internal
