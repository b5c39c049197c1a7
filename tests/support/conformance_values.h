#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "kernels/dtypes.h"
#include "support/members.h"
#include "tensor/memory.h"

// What members reduce in conformance tests, and what a serial loop makes of it.

namespace cohort {

// Small numbers: their sums and products are exact in every dtype.
inline double value_at(int rank, int64_t i) { return static_cast<double>((rank + i) % 3); }

inline double combined(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      return a + b;
    case ReduceOp::Min:
      return std::min(a, b);
    case ReduceOp::Max:
      return std::max(a, b);
    case ReduceOp::Product:
      return a * b;
  }
  return 0;
}

// The values that are compared here repeat after so many.
inline constexpr int64_t kPeriod = 3;

inline Tensor make_values(DType dtype, const Shape& shape,
                          const std::function<double(int64_t)>& value) {
  const internal::WritableTensor made = internal::allocate_tensor(dtype, shape);
  const int64_t count = shape.num_elements();
  const int64_t given = std::min(kPeriod, count);
  internal::visit_numeric(dtype, [&]<typename T>(T) {
    auto* data = reinterpret_cast<T*>(made.data);
    for (int64_t i = 0; i < given; ++i) {
      if constexpr (std::same_as<T, bool>) {
        data[i] = value(i) != 0;
      } else if constexpr (std::is_arithmetic_v<T>) {
        data[i] = static_cast<T>(value(i));
      } else {
        data[i] = static_cast<T>(static_cast<float>(value(i)));
      }
    }
    for (int64_t i = given; i < count; ++i) data[i] = data[i - kPeriod];
  });
  return made.tensor;
}

// Bools are 0 and 1.
inline double input(DType dtype, int rank, int64_t i) {
  const double value = value_at(rank, i);
  return dtype == kBool ? static_cast<double>(value != 0) : value;
}

inline double serial(DType dtype, ReduceOp op, int size, int64_t i) {
  double result = input(dtype, 0, i);
  for (int rank = 1; rank < size; ++rank) result = combined(op, result, input(dtype, rank, i));
  return op == ReduceOp::Mean ? result / size : result;
}

// The first values are the serial ones, and the rest repeats them.
inline void expect_reduced(const Tensor& result, DType dtype, ReduceOp op, int size,
                           int64_t first = 0) {
  const int64_t compared = std::min(kPeriod, result.size());
  const Tensor expected = make_values(
      result.dtype(), {compared}, [&](int64_t i) { return serial(dtype, op, size, first + i); });
  const auto bytes = [&](int64_t count) {
    return static_cast<size_t>(count * size_of(result.dtype()));
  };
  if (compared == 0) return;
  const std::byte* const found = internal::element_bytes(result);
  const bool begins = std::memcmp(found, internal::element_bytes(expected), bytes(compared)) == 0;
  const bool repeats =
      std::memcmp(found + bytes(compared), found, bytes(result.size() - compared)) == 0;
  ASSERT_TRUE(begins && repeats) << to_string(op) << " of " << result.size() << " "
                                 << to_string(dtype) << " of " << size << " members";
}

inline bool exists(DType dtype, ReduceOp op) {
  return dtype != kBool || (op != ReduceOp::Sum && op != ReduceOp::Mean);
}

inline constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Min, ReduceOp::Max,
                                    ReduceOp::Product};
inline constexpr DType kDTypes[] = {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8,
                                    kInt16,   kInt32,    kInt64,   kUInt8,   kBool};

// What one member contributes, and whether it gets the serial reductions.
inline void reduce_and_check(Communicator& member, DType dtype, std::span<const ReduceOp> ops,
                             int64_t length) {
  const Tensor own =
      make_values(dtype, {length}, [&](int64_t i) { return value_at(member.rank(), i); });
  for (const ReduceOp op : ops) {
    if (exists(dtype, op)) expect_reduced(member.all_reduce(own, op), dtype, op, member.size());
  }
}

// Of the tensors that are reduced.
inline std::vector<int64_t> lengths(int size) { return {0, 1, size - 1, 1000, 100000}; }

}  // namespace cohort
