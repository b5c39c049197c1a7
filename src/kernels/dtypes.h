#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>

#include "base/raise.h"
#include "cohort/dtype.h"

namespace cohort::internal {

// Calls body(T{}) with the C++ type of a numeric dtype.
template <typename Body>
decltype(auto) visit_numeric(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::Float16:
      return body(float16{});
    case DType::BFloat16:
      return body(bfloat16{});
    case DType::Float32:
      return body(float{});
    case DType::Float64:
      return body(double{});
    case DType::Int8:
      return body(int8_t{});
    case DType::Int16:
      return body(int16_t{});
    case DType::Int32:
      return body(int32_t{});
    case DType::Int64:
      return body(int64_t{});
    case DType::UInt8:
      return body(uint8_t{});
    case DType::Bool:
      return body(bool{});
    case DType::String:
    case DType::Resource:
      break;
  }
  raise(Code::InvalidArgument, "[Tensor] {} values are not numbers", to_string(dtype));
}

template <typename T>
inline constexpr bool kIs16BitFloat = std::same_as<T, float16> || std::same_as<T, bfloat16>;

// Element number `index`. Memory that another program filled may be at any address, and hold any
// byte where a bool is expected.
template <typename T>
T load(const void* data, int64_t index) {
  if constexpr (std::same_as<T, bool>) {
    return load<uint8_t>(data, index) != 0;
  } else {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
    return value;
  }
}

// The dtype in which integers of this dtype divide; a floating dtype itself.
inline DType division_dtype(DType dtype) {
  if (is_floating(dtype)) return dtype;
  return size_of(dtype) <= 2 ? kFloat32 : kFloat64;
}

}  // namespace cohort::internal
