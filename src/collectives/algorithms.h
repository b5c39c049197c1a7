#pragma once

#include "collectives/arithmetic.h"
#include "collectives/exchange.h"

// The algorithms of collectives over messages, for any number of members and elements. The order of
// every reduction is fixed, and each part of a result is computed once, or by every member in the
// same way, so all members get the same bits.

namespace cohort::internal {

// Best for much data: every member sends and receives the data twice in all, at the same time, in
// segments that travel through the ring one after the other.
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
