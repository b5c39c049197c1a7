#include "ops/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/raise.h"
#include "ops/infer.h"
#include "tensor/visit.h"

namespace cohort::internal {
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

}  // namespace cohort::internal
