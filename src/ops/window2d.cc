#include "ops/window2d.h"

#include <algorithm>
#include <limits>

#include "base/raise.h"

namespace cohort::internal {
namespace {

void check_sides(std::string_view op, std::string_view what, const Window2d::Sides& values,
                 int64_t least) {
  constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
  for (const int64_t value : values) {
    if (value >= least && value <= kMaxInt) continue;
    raise(Code::InvalidArgument, "[{}] the {} must be at least {} and at most {}, got ({}, {})", op,
          what, least, kMaxInt, values[0], values[1]);
  }
}

// From the first element that the window covers to the last.
int64_t span_of(const Window2d& window, size_t side) {
  return window.dilation[side] * (window.size[side] - 1) + 1;
}

int64_t same_output(int64_t extent, int64_t stride) { return (extent + stride - 1) / stride; }

int64_t same_padding(const Window2d& window, int64_t extent, size_t side) {
  const int64_t steps = same_output(extent, window.stride[side]) - 1;
  return std::max<int64_t>(steps * window.stride[side] + span_of(window, side) - extent, 0);
}

int64_t output_size(std::string_view op, const Window2d& window, int64_t extent, size_t side) {
  if (extent < 0) return Shape::kUnknownDim;
  if (extent == 0)
    raise(Code::InvalidArgument,
          "[{}] the input's planes are empty; each must have at least 1 row and 1 column", op);
  if (window.same) return same_output(extent, window.stride[side]);
  const int64_t room = extent + 2 * window.padding[side] - span_of(window, side);
  if (room >= 0) return room / window.stride[side] + 1;
  raise(Code::InvalidArgument,
        "[{}] a window of {} {} does not fit into {} of the input and {} of padding on each side",
        op, span_of(window, side), side == 0 ? "rows" : "columns", extent, window.padding[side]);
}

}  // namespace

void Window2d::check(std::string_view op) const {
  check_sides(op, "window", size, 1);
  check_sides(op, "stride", stride, 1);
  check_sides(op, "dilation", dilation, 1);
  check_sides(op, "padding", padding, 0);
}

Window2d::Sides Window2d::output(std::string_view op, int64_t height, int64_t width) const {
  return {output_size(op, *this, height, 0), output_size(op, *this, width, 1)};
}

Shape Window2d::output(std::string_view op, const Shape& x, int64_t channels) const {
  const Sides plane = output(op, x[2], x[3]);
  return {x[0], channels, plane[0], plane[1]};
}

PaddedPlanes::PaddedPlanes(const Window2d& window, const at::Tensor& x)
    : padding(window.padding), extra{0, 0} {
  if (!window.same) return;
  for (size_t side = 0; side < 2; ++side) {
    const int64_t total = same_padding(window, x.size(static_cast<int64_t>(side) + 2), side);
    padding[side] = total / 2;
    extra[side] = total % 2;
  }
}

at::Tensor PaddedPlanes::extended(const at::Tensor& x, double value) const {
  return symmetric() ? x : at::constant_pad_nd(x, {0, extra[1], 0, extra[0]}, value);
}

at::Tensor PaddedPlanes::like_extended(const at::Tensor& x) const {
  if (symmetric()) return x;
  return at::empty({x.size(0), x.size(1), x.size(2) + extra[0], x.size(3) + extra[1]}, x.options());
}

at::Tensor PaddedPlanes::cropped(const at::Tensor& x) const {
  if (symmetric()) return x;
  return x.narrow(2, 0, x.size(2) - extra[0]).narrow(3, 0, x.size(3) - extra[1]);
}

Window2d::Sides sides(const Attrs& attrs, std::string_view name) {
  const std::vector<int64_t>& values = attrs.integers(name);
  if (values.size() != 2) {
    raise(Code::InvalidArgument, "[Window2d] '{}' needs 2 sizes, got {}", name, values.size());
  }
  return {values[0], values[1]};
}

}  // namespace cohort::internal
