#include "ops/infer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/raise.h"
#include "kernels/dtypes.h"

namespace cohort::internal {
namespace {

int64_t broadcast_size(std::string_view op, int64_t a, int64_t b, const Shape& left,
                       const Shape& right) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (a < 0) return b;  // must be 1 or b
  if (b < 0) return a;
  raise(Code::InvalidArgument, "[{}] shapes {} and {} do not broadcast: sizes {} and {} differ", op,
        left.to_string(), right.to_string(), a, b);
}

}  // namespace

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  if (!a.has_rank() || !b.has_rank()) return Shape::unknown();
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int offset = longer.rank() - shorter.rank();
  Shape result;
  for (int i = 0; i < longer.rank(); ++i) {
    const int64_t other = i < offset ? 1 : shorter.begin()[i - offset];
    result.push_back(broadcast_size(op, longer.begin()[i], other, a, b));
  }
  return result;
}

int normalize_axis(std::string_view op, int64_t axis, int rank) {
  const int64_t positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank) {
    raise(Code::InvalidArgument, "[{}] axis {} does not exist in a tensor of {} dimensions", op,
          axis, rank);
  }
  return static_cast<int>(positive);
}

std::vector<int64_t> normalize_axes(std::string_view op, std::span<const int64_t> axes, int rank) {
  std::vector<int64_t> result;
  for (const int64_t axis : axes) {
    const int normal = normalize_axis(op, axis, rank);
    if (std::find(result.begin(), result.end(), normal) != result.end()) {
      raise(Code::InvalidArgument, "[{}] axis {} is named twice", op, axis);
    }
    result.push_back(normal);
  }
  return result;
}

void require_rank(std::string_view op, const Shape& shape, int rank, std::string_view what) {
  if (!shape.has_rank() || shape.rank() == rank) return;
  raise(Code::InvalidArgument, "[{}] {} must have {} dimensions, got shape {}", op, what, rank,
        shape.to_string());
}

void require_rank_at_least(std::string_view op, const Shape& shape, int rank,
                           std::string_view what) {
  if (!shape.has_rank() || shape.rank() >= rank) return;
  raise(Code::InvalidArgument, "[{}] {} must have at least {} dimension{}, got shape {}", op, what,
        rank, rank == 1 ? "" : "s", shape.to_string());
}

void require_same_dtype(const OpInputs& inputs) {
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs.dtype(i) == inputs.dtype(0)) continue;
    raise(Code::InvalidArgument, "[{}] inputs 0 and {} must have one dtype, got {} and {}",
          inputs.op, i, to_string(inputs.dtype(0)), to_string(inputs.dtype(i)));
  }
}

void require_allocatable(std::string_view op, const Shape& shape, DType dtype) {
  if (!shape.is_fully_known()) return;
  // num_elements() throws when even the count does not fit.
  int64_t bytes = 0;
  constexpr int64_t kMaxBytes = int64_t{1} << 46;  // 64 TiB, more than any machine has
  if (__builtin_mul_overflow(shape.num_elements(), std::max<int64_t>(size_of(dtype), 1), &bytes) ||
      bytes > kMaxBytes) {
    raise(Code::InvalidArgument, "[{}] shape {} of {} is too large for any memory", op,
          shape.to_string(), to_string(dtype));
  }
}

Specs infer_same(const OpInputs& inputs) { return {{inputs.dtype(0), inputs.shape(0)}}; }

Specs infer_broadcast(const OpInputs& inputs) {
  return {{inputs.dtype(0), broadcast_shapes(inputs.op, inputs.shape(0), inputs.shape(1))}};
}

Specs infer_alike(const OpInputs& inputs) {
  require_same_dtype(inputs);
  return {{inputs.dtype(0), require_same_shape(inputs, 0, 1)}};
}

Specs infer_declared(const OpInputs& inputs) {
  return {{inputs.attrs.get<DType>("dtype"), inputs.attrs.get<Shape>("shape")}};
}

Gradients no_influence(const OpCall& call, std::span<const Tensor>) {
  return Gradients(call.inputs.size());
}

Gradients no_slope(const OpCall&, Grads) { return {{}}; }

namespace {

double largest(DType dtype) {
  if (dtype == kFloat16) return 65504;
  if (dtype == kBFloat16) return 0x1.fep127;
  return dtype == kFloat32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

bool holds(DType dtype, double value) {
  if (is_floating(dtype)) return !std::isfinite(value) || std::abs(value) <= largest(dtype);
  if (dtype == kBool) return value == 0 || value == 1;
  if (dtype == kUInt8) return value >= 0 && value < 256 && value == std::floor(value);
  const double limit = std::ldexp(1.0, static_cast<int>(8 * size_of(dtype) - 1));
  return value >= -limit && value < limit && value == std::floor(value);
}

}  // namespace

void require_creatable(std::string_view op, const Shape& shape, DType dtype) {
  if (!shape.is_fully_known()) {
    raise(Code::InvalidArgument, "[{}] every size must be given and not negative, got shape {}", op,
          shape.to_string());
  }
  checked_count(op, shape);
  require_allocatable(op, shape, dtype);
}

void require_compatible(std::string_view op, const Shape& found, const Shape& expected,
                        std::string_view what) {
  if (found.is_compatible_with(expected)) return;
  raise(Code::InvalidArgument, "[{}] {} must have shape {}, got {}", op, what, expected.to_string(),
        found.to_string());
}

void require_handle(const OpInputs& inputs, std::string_view whose) {
  if (inputs.dtype(0) == kResource) return;
  raise(Code::InvalidArgument, "[{}] input 0 must be {} handle, got {}", inputs.op, whose,
        to_string(inputs.dtype(0)));
}

void require_integers(const OpInputs& inputs, size_t i, std::string_view what) {
  if (is_integer(inputs.dtype(i))) return;
  raise(Code::InvalidArgument, "[{}] {} must be integers, got {}", inputs.op, what,
        to_string(inputs.dtype(i)));
}

void require_possible_rank(std::string_view op, int rank) {
  if (rank <= Shape::kMaxRank) return;
  raise(Code::InvalidArgument,
        "[{}] the result would have {} dimensions, but a tensor has at most {}", op, rank,
        Shape::kMaxRank);
}

int known_rank(std::string_view op, const Tensor& x) {
  if (x.shape().has_rank()) return x.rank();
  raise(Code::InvalidArgument, "[{}] the number of dimensions must be known", op);
}

void require_representable(std::string_view op, double value, DType dtype) {
  if (holds(dtype, value)) return;
  raise(Code::InvalidArgument, "[{}] {} is not a value of {}", op, value, to_string(dtype));
}

void require_size(std::string_view op, int64_t size, std::string_view what) {
  if (size >= 0) return;
  raise(Code::InvalidArgument, "[{}] {} must not be negative, got {}", op, what, size);
}

int64_t checked_count(std::string_view op, const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) count = checked_multiply(op, count, size);
  return count;
}

int64_t checked_add(std::string_view op, int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  raise(Code::InvalidArgument, "[{}] the size {} + {} does not fit into 64 bits", op, a, b);
}

int64_t checked_multiply(std::string_view op, int64_t a, int64_t b) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  raise(Code::InvalidArgument, "[{}] the size {} * {} does not fit into 64 bits", op, a, b);
}

Shape require_same_shape(const OpInputs& inputs, size_t i, size_t j) {
  const Shape& a = inputs.shape(i);
  const Shape& b = inputs.shape(j);
  if (a.is_compatible_with(b)) return a.merged_with(b);
  raise(Code::InvalidArgument, "[{}] inputs {} and {} must have one shape, got {} and {}",
        inputs.op, i, j, a.to_string(), b.to_string());
}

void require_channel_vector(const OpInputs& inputs, size_t i, int64_t channels,
                            std::string_view what) {
  if (inputs.shape(i).is_compatible_with(Shape{channels})) return;
  raise(Code::InvalidArgument, "[{}] {} must have shape {}, one element per channel, got {}",
        inputs.op, what, Shape{channels}.to_string(), inputs.shape(i).to_string());
}

void require_count(std::string_view op, int64_t expected, int64_t found) {
  if (expected == found) return;
  raise(Code::InvalidArgument, "[{}] expected {} elements, got {}", op, expected, found);
}

}  // namespace cohort::internal
