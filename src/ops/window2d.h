#pragma once

#include <array>

#include "cohort/nn_ops.h"
#include "ops/kernel.h"

namespace cohort::internal {

// How a convolution's kernel or a pool's window moves over planes of (height, width).
struct Window2d {
  using Sides = std::array<int64_t, 2>;

  Sides size;
  Sides stride;
  Sides dilation;
  Sides padding;  // on each side; nothing when `same`
  bool same;

  // Throws InvalidArgument naming `op` unless sizes, strides and dilations are at least 1, paddings
  // at least 0, and all of them small enough to compute with.
  void check(std::string_view op) const;
  // Height and width of what comes out of a plane, unknown where the plane's is. Throws
  // InvalidArgument when the window is larger than the padded plane.
  Sides output(std::string_view op, int64_t height, int64_t width) const;
  Shape output(std::string_view op, const Shape& x, int64_t channels) const;
};

// Planes as the kernel library wants them. It pads both sides alike, so what is missing at the
// bottom and right is added here.
struct PaddedPlanes {
  Window2d::Sides padding;  // what is left to the kernel library
  Window2d::Sides extra;    // rows below and columns right

  PaddedPlanes(const Window2d& window, const at::Tensor& x);
  bool symmetric() const { return extra[0] == 0 && extra[1] == 0; }
  // `x` with the extra rows and columns, which hold `value`.
  at::Tensor extended(const at::Tensor& x, double value) const;
  // Memory of that size, for kernels that only want to know it.
  at::Tensor like_extended(const at::Tensor& x) const;
  // `x` without them.
  at::Tensor cropped(const at::Tensor& x) const;
};

inline std::vector<int64_t> to_attr(const nn::Size2d& size) { return {size.height, size.width}; }
Window2d::Sides sides(const Attrs& attrs, std::string_view name);

}  // namespace cohort::internal
