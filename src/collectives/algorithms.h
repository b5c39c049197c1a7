#pragma once

#include "base/raise.h"
#include "collectives/arithmetic.h"
#include "collectives/collective_group.h"

// The algorithms of collectives over messages, for any number of members and elements. The order of
// every reduction is fixed, and each part of a result is computed once, or by every member in the
// same way, so all members get the same bits.

namespace cohort::internal {

// The messages of one call, as an algorithm sees them: each has a sender, a receiver and a step.
class Exchange {
 public:
  // Announces the call to the next member. Around the ring every member is compared with another,
  // so no two members can wait for each other in different calls.
  Exchange(CollectiveGroup& group, const Call& call) : group_(group), call_(call) {
    if (size() > 1) group_.announce(call_, (rank() + 1) % size());
  }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }

  void send(int to, uint64_t step, Buffer payload) {
    group_.send(call_, to, step, {std::move(payload)});
  }
  void send(int to, uint64_t step, std::vector<Buffer> payloads) {
    group_.send(call_, to, step, std::move(payloads));
  }
  std::vector<Buffer> receive(int from, uint64_t step) {
    return group_.receive(call_, from, step).payloads;
  }
  // One payload, of any length or of that length; DataLoss otherwise.
  Buffer receive_any(int from, uint64_t step) {
    std::vector<Buffer> payloads = receive(from, step);
    if (payloads.size() != 1) {
      raise(Code::DataLoss, "[{}] expected one payload from {}, got {}", name_of(call_.kind),
            group_.describe(from), payloads.size());
    }
    return std::move(payloads[0]);
  }
  Buffer receive(int from, uint64_t step, size_t bytes) {
    Buffer payload = receive_any(from, step);
    if (payload.bytes.size() != bytes) {
      raise(Code::DataLoss, "[{}] expected {} bytes from {}, got {}", name_of(call_.kind), bytes,
            group_.describe(from), payload.bytes.size());
    }
    return payload;
  }

 private:
  CollectiveGroup& group_;
  const Call& call_;
};

// Best for much data: every member sends and receives the data twice in all, at the same time, in
// segments that members pass along the ring one after the other.
void ring_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out);
// Part rank() of the reduction.
Buffer ring_reduce_scatter(Exchange& exchange, const Numbers& operand);
// The values of all members, by rank; they may differ in length.
std::vector<Buffer> ring_all_gather(Exchange& exchange, const Buffer& own);

// Best for medium sizes: 2 log2(members) steps. Each step of the first half exchanges half as much
// data as the step before, each step of the second half twice as much.
void halving_doubling_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out);

// Best for small sizes: log2(members) steps, each of which exchanges everything with another
// member.
void doubling_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out);

// `values` is the root's. In segments, each passed on as soon as it has come.
void tree_broadcast(Exchange& exchange, int root, const Buffer& values, std::byte* out,
                    size_t bytes);
// `out` is written on the root only.
void tree_reduce(Exchange& exchange, int root, const Numbers& operand, std::byte* out);

// Returns when all members have called it.
void dissemination_barrier(Exchange& exchange);

}  // namespace cohort::internal
