#include "ops/infer.h"

#include <algorithm>

#include "base/raise.h"

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

Specs infer_broadcast_to_bool(const OpInputs& inputs) {
  return {{kBool, broadcast_shapes(inputs.op, inputs.shape(0), inputs.shape(1))}};
}

Gradients no_influence(const OpCall& call, std::span<const Tensor>) {
  return Gradients(call.inputs.size());
}

}  // namespace cohort::internal
