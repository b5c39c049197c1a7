#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cohort/values.h"

namespace cohort::internal {

// The dtype of the results of `op` on values of `dtype`: a mean of integers is floating.
DType reduced_dtype(ReduceOp op, DType dtype);

// Arrays of one dtype that are combined into one array, element by element.
struct ElementReduction {
  ReduceOp op;
  DType dtype;                                // a number; Sum and Mean do not take Bool
  std::span<const std::byte* const> sources;  // at least one
  std::byte* target = nullptr;                // of reduced_dtype(); apart from the sources
  int64_t divisor = 0;                        // of Mean; 0: the number of sources
  bool past_caches = false;                   // part of a large result, as whole large ranges are
};

// Elements `begin` to `end` of the target, from the sources in their order: each thread that
// computes them gets the same bits. 16-bit floats add up as float32 and are rounded once. Large
// ranges go past the caches.
void reduce_elements(const ElementReduction& reduction, int64_t begin, int64_t end);

// The same into each of `targets`, instead of `target`. They may be the sources themselves.
void reduce_elements_into(std::span<std::byte* const> targets, const ElementReduction& reduction,
                          int64_t begin, int64_t end);

}  // namespace cohort::internal
