#pragma once

#include "collectives/arithmetic.h"
#include "collectives/exchange.h"

// How members do together what the Communicator promises, over messages. One file each; all of them
// for any number of members and elements. The order of every reduction is fixed, and each part of a
// result is computed once, or by everybody in the same way: so all get the same bits.

namespace cohort::internal {

// Best for much data: everybody sends and receives the data twice in all, at the same time, in
// segments that are on their way through the ring one behind the other.
void ring_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out);
// Part rank() of the reduction.
Buffer ring_reduce_scatter(Exchange& exchange, const Numbers& operand);
// Everybody's `own`, by rank; they may differ in length.
std::vector<Buffer> ring_all_gather(Exchange& exchange, const Buffer& own);

// Best for medium sizes: twice the logarithm of the members as many steps, with half the data of
// the step before in each, then twice.
void halving_doubling_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out);

// Best for small sizes: in each step, as many as the logarithm of the members, everything is
// exchanged with another member.
void doubling_all_reduce(Exchange& exchange, const Numbers& operand, std::byte* out);

// `values` is the root's. In segments, each passed on as soon as it has come.
void tree_broadcast(Exchange& exchange, int root, const Buffer& values, std::byte* out,
                    size_t bytes);
// `out` is written on the root only.
void tree_reduce(Exchange& exchange, int root, const Numbers& operand, std::byte* out);

// Returns when everybody has come.
void dissemination_barrier(Exchange& exchange);

}  // namespace cohort::internal
