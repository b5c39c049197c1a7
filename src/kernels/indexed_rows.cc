// Justified by `bench_parameter_server embedding` and by "shuffled image batches / gather by index"
// of `bench_data`: the kernel library is quick at single elements, and slow at rows, each of which
// it sets up anew.

#include "kernels/indexed_rows.h"

#include <concepts>
#include <cstring>
#include <type_traits>

#include "kernels/dtypes.h"

namespace cohort::internal {
namespace {

template <typename T>
void add_row(T* __restrict target, const T* __restrict values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kIs16BitFloat<T>) {
      target[i] = T(static_cast<float>(target[i]) + static_cast<float>(values[i]));
    } else {
      target[i] += values[i];
    }
  }
}

template <typename T>
void add_all(const AxisLayout& layout, const int64_t* rows, int64_t count, const T* values,
             T* target) {
  for (int64_t block = 0; block < layout.outer; ++block) {
    for (int64_t i = 0; i < count; ++i, values += layout.inner) {
      add_row(target + rows[i] * layout.inner, values, layout.inner);
    }
    target += layout.size * layout.inner;
  }
}

// The smallest integer has no negative: its quotient by -1 wraps around to itself.
template <typename T>
T quotient(T a, T b) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    if (b == T{-1}) return static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a));
  }
  return static_cast<T>(a / b);
}

// Integers wrap around.
template <typename T>
T combine(ScatterOp op, T old_value, T new_value) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  const auto a = static_cast<Wide>(old_value);
  const auto b = static_cast<Wide>(new_value);
  switch (op) {
    case ScatterOp::Update:
      return new_value;
    case ScatterOp::Add:
      return static_cast<T>(a + b);
    case ScatterOp::Sub:
      return static_cast<T>(a - b);
    case ScatterOp::Mul:
      return static_cast<T>(a * b);
    case ScatterOp::Div:
      return quotient(old_value, new_value);
    case ScatterOp::Min:
      return new_value < old_value ? new_value : old_value;
    case ScatterOp::Max:
      return old_value < new_value ? new_value : old_value;
  }
  return old_value;
}

template <typename T>
void scatter_typed(ScatterOp op, int64_t width, const int64_t* rows, int64_t count, const T* values,
                   T* table) {
  for (int64_t i = 0; i < count; ++i) {
    T* row = table + rows[i] * width;
    const T* change = values + i * width;
    for (int64_t j = 0; j < width; ++j) {
      if constexpr (std::is_same_v<T, bool>) {
        row[j] = combine<int>(op, row[j], change[j]) != 0;
      } else if constexpr (std::is_arithmetic_v<T>) {
        row[j] = combine(op, row[j], change[j]);
      } else {
        row[j] = T(combine<float>(op, row[j], change[j]));
      }
    }
  }
}

}  // namespace

void copy_rows(const AxisLayout& layout, int64_t element_size, const void* source,
               const int64_t* rows, int64_t count, void* target) {
  const auto row_bytes = static_cast<size_t>(layout.inner * element_size);
  const auto* from = static_cast<const std::byte*>(source);
  auto* to = static_cast<std::byte*>(target);
  for (int64_t block = 0; block < layout.outer; ++block) {
    for (int64_t i = 0; i < count; ++i, to += row_bytes) {
      std::memcpy(to, from + static_cast<size_t>(rows[i]) * row_bytes, row_bytes);
    }
    from += static_cast<size_t>(layout.size) * row_bytes;
  }
}

void add_to_rows(DType dtype, const AxisLayout& layout, const int64_t* rows, int64_t count,
                 const void* values, void* target) {
  visit_numeric(dtype, [&]<typename T>(T) {
    if constexpr (std::same_as<T, bool>) {
      raise(Code::InvalidArgument, "[Tensor] bool values cannot be added");
    } else {
      add_all(layout, rows, count, static_cast<const T*>(values), static_cast<T*>(target));
    }
  });
}

void scatter_rows(DType dtype, ScatterOp op, int64_t width, const int64_t* rows, int64_t count,
                  const void* values, void* table) {
  visit_numeric(dtype, [&]<typename T>(T) {
    scatter_typed(op, width, rows, count, static_cast<const T*>(values), static_cast<T*>(table));
  });
}

}  // namespace cohort::internal
