#include "collectives/engine.h"

#include <cstring>

#include "collectives/algorithms.h"

namespace cohort::internal {
namespace {

void copy(const Buffer& from, std::byte* to) {
  if (!from.bytes.empty() && from.bytes.data() != to) {
    std::memcpy(to, from.bytes.data(), from.bytes.size());
  }
}

}  // namespace

Engine::Engine(CollectiveGroup& group, Distance distance) : group_(group), distance_(distance) {
  table = default_table(distance, group.size());
}

// A mean is a sum that every member divides in the end. `combine` writes `bytes` of sums.
void Engine::reduce_into(const Call& call, const Buffer& values, size_t bytes, std::byte* out,
                         Combine combine) {
  const bool is_mean = call.op == ReduceOp::Mean;
  const auto sum_up = [&](std::byte* sums) {
    if (group_.size() == 1) return copy(values, sums);
    (this->*combine)(call, {is_mean ? ReduceOp::Sum : call.op, call.dtype, values}, sums);
  };
  if (!is_mean) return sum_up(out);
  const FreshBuffer sums(bytes);
  sum_up(sums.data);
  if (out == nullptr) return;
  const int64_t count = static_cast<int64_t>(bytes) / size_of(call.dtype);
  divide(call.dtype, sums.data, count, group_.size(), out);
}

std::string_view Engine::kind() const { return group_.size() == 1 ? "alone" : "messages"; }

void Engine::all_reduce(const Call& call, const Buffer& values, std::byte* out) {
  reduce_into(call, values, values.bytes.size(), out, &Engine::combine_all);
}

void Engine::combine_all(const Call& call, const Numbers& numbers, std::byte* out) {
  Exchange exchange(group_, call);
  switch (table.choose(numbers.values.bytes.size())) {
    case Algorithm::Doubling:
      return doubling_all_reduce(exchange, numbers, out);
    case Algorithm::HalvingDoubling:
      return halving_doubling_all_reduce(exchange, numbers, out);
    default:
      return ring_all_reduce(exchange, numbers, out);
  }
}

void Engine::reduce(const Call& call, const Buffer& values, std::byte* out) {
  reduce_into(call, values, values.bytes.size(), out, &Engine::combine_on_root);
}

void Engine::combine_on_root(const Call& call, const Numbers& numbers, std::byte* out) {
  Exchange exchange(group_, call);
  tree_reduce(exchange, call.root, numbers, out);
}

void Engine::reduce_scatter(const Call& call, const Buffer& values, std::byte* out) {
  const size_t bytes = values.bytes.size() / static_cast<size_t>(group_.size());
  reduce_into(call, values, bytes, out, &Engine::combine_parts);
}

void Engine::combine_parts(const Call& call, const Numbers& numbers, std::byte* out) {
  Exchange exchange(group_, call);
  copy(ring_reduce_scatter(exchange, numbers), out);
}

void Engine::broadcast(const Call& call, const Buffer& values, std::byte* out) {
  if (group_.size() == 1) return copy(values, out);
  Exchange exchange(group_, call);
  tree_broadcast(exchange, call.root, values, out, values.bytes.size());
}

void Engine::all_gather(const Call& call, const Buffer& own, const Allocate& allocate) {
  Exchange exchange(group_, call);
  const std::vector<Buffer> all = ring_all_gather(exchange, own);
  std::vector<size_t> sizes;
  for (const Buffer& part : all) sizes.push_back(part.bytes.size());
  std::byte* out = allocate(sizes);
  for (const Buffer& part : all) {
    copy(part, out);
    out += part.bytes.size();
  }
}

Engine::Parts Engine::all_to_all(const Call& call, Parts parts) {
  const int size = group_.size();
  const int rank = group_.rank();
  Exchange exchange(group_, call);
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size;
    exchange.send(to, 0, std::move(parts[static_cast<size_t>(to)]));
  }
  for (int distance = 1; distance < size; ++distance) {
    const int from = (rank + size - distance) % size;
    parts[static_cast<size_t>(from)] = exchange.receive(from, 0);
  }
  return parts;
}

void Engine::barrier(const Call& call) {
  Exchange exchange(group_, call);
  dissemination_barrier(exchange);
}

void Engine::allocate(const Call& call, PackMemory& pack) {
  const FreshBuffer memory(pack.bytes());
  std::memset(memory.data, 0, pack.bytes());
  pack.own = memory.data;
  pack.holder = memory.buffer.owner;
  Engine::barrier(call);
}

void Engine::all_reduce(const Call& call, PackMemory& pack) {
  // A copy: the owner writes into the pack again while others may still read.
  const Buffer values = copy_of({pack.own, pack.bytes()});
  all_reduce(call, values, pack.own);
}

}  // namespace cohort::internal
