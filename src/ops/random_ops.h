#pragma once

#include "ops/all_ops.h"

// The random ops are functions of a key tensor, (seed, counter) as int64 of shape (2,). Shape and
// parameters are attributes.
namespace cohort::internal {

// 128-bit blocks that a draw of `count` values uses.
constexpr uint64_t random_blocks(int64_t count, DType dtype) {
  const bool wide = dtype >= kFloat64;  // float64 and integers take 64 bits each, the others 32
  const auto values = static_cast<uint64_t>(count);
  return wide ? (values + 1) / 2 : (values + 3) / 4;
}

}  // namespace cohort::internal
