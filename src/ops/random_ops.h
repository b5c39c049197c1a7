#pragma once

#include "ops/op.h"

// The random ops are functions of a key tensor, (seed, counter) as int64 of shape (2,). Shape and
// parameters are attributes.
namespace cohort::internal {

// The key of a draw in a graph: "seed" and "counter" as they are when the graph is built in the
// first run that draws, and from then on a seed made of that one and the number of the run. "call"
// tells copies of one function's body in one graph apart.
extern const OpDef kRandomKey;
extern const OpDef kRandomUniform;          // "low", "high"
extern const OpDef kRandomNormal;           // "mean", "stddev"
extern const OpDef kRandomTruncatedNormal;  // "mean", "stddev"
extern const OpDef kRandomInt;              // "low", "high"
// Input 1 is a tensor whose first dimension says how many numbers are permuted.
extern const OpDef kRandomPermutation;

// 128-bit blocks that a draw of `count` values uses.
constexpr uint64_t random_blocks(int64_t count, DType dtype) {
  const bool wide = dtype >= kFloat64;  // float64 and integers take 64 bits each, the others 32
  const auto values = static_cast<uint64_t>(count);
  return wide ? (values + 1) / 2 : (values + 3) / 4;
}

}  // namespace cohort::internal
