#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "cohort/tensor.h"

// Ops that only move elements about work on strings as on numbers: what the kernel library does to
// the positions of the strings, from_moved does to the strings.
namespace cohort::internal {

// The value, or for strings the row-major position of each.
at::Tensor movable(const Tensor& x);
// `moved`, which was made from movable(x) by moving elements, as a tensor of x's dtype.
Tensor from_moved(const Tensor& x, at::Tensor moved);

// The same for several tensors of one dtype that are joined.
struct Movables {
  std::vector<at::Tensor> parts;
  std::vector<std::string> texts;  // of all parts together
  bool are_strings = false;
};
Movables movables(std::span<const Tensor> tensors);
Tensor from_moved(const Movables& joined, at::Tensor moved);

}  // namespace cohort::internal
