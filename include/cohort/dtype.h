#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace cohort {

// DType is the type of a tensor's elements. Resource is a handle to state on a device (a variable,
// a queue); a program cannot read it.
enum class DType : uint8_t {
  Float16,
  BFloat16,
  Float32,
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  UInt8,
  Bool,
  String,
  Resource,
};

inline constexpr DType kFloat16 = DType::Float16;
inline constexpr DType kBFloat16 = DType::BFloat16;
inline constexpr DType kFloat32 = DType::Float32;
inline constexpr DType kFloat64 = DType::Float64;
inline constexpr DType kInt8 = DType::Int8;
inline constexpr DType kInt16 = DType::Int16;
inline constexpr DType kInt32 = DType::Int32;
inline constexpr DType kInt64 = DType::Int64;
inline constexpr DType kUInt8 = DType::UInt8;
inline constexpr DType kBool = DType::Bool;
inline constexpr DType kString = DType::String;
inline constexpr DType kResource = DType::Resource;

// Returns "float32" and so on.
std::string to_string(DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);
// Returns the dtype of a name. Throws InvalidArgument, listing all names, if the name is unknown.
DType parse_dtype(std::string_view name);

bool is_floating(DType dtype);  // Float16 to Float64
bool is_integer(DType dtype);   // Int8 to UInt8; Bool is not an integer
bool is_numeric(DType dtype);   // floating, integer or Bool: the dtypes for arithmetic
// Returns the bytes of one element in memory; 0 for String and Resource, which have no fixed size.
int64_t size_of(DType dtype);

// Returns the dtype of an element-wise operation on `a` and `b`: the narrowest dtype that holds the
// values of both. The order is bool, integers by width, floats by width. An integer with a float
// gives the float, uint8 with int8 gives int16, and float16 with bfloat16 gives float32. Equal
// dtypes give themselves. Throws InvalidArgument for String or Resource with another dtype.
DType promote(DType a, DType b);

// float16 and bfloat16 store the two 16-bit floats. They convert from and to float (round to
// nearest even) and have no arithmetic: compute in float, or on tensors.
struct float16 {
  float16() = default;
  explicit float16(float value);
  operator float() const;
  uint16_t bits = 0;
};

struct bfloat16 {
  bfloat16() = default;
  explicit bfloat16(float value);
  operator float() const;
  uint16_t bits = 0;
};

namespace internal {
template <typename T>
struct DTypeOf;  // undefined for types that no tensor holds
}  // namespace internal

// TensorElement is a C++ type of tensor elements; dtype_of gives its dtype.
template <typename T>
concept TensorElement = requires {
  internal::DTypeOf<T>::value;
};
template <TensorElement T>
inline constexpr DType dtype_of = internal::DTypeOf<T>::value;

}  // namespace cohort

#include "cohort/internal/dtype_of.h"  // IWYU pragma: export
