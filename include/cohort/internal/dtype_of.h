#pragma once

// The dtypes of C++ types. Not for inclusion by users: include cohort/dtype.h.

#include "cohort/dtype.h"

namespace cohort::internal {

// clang-format off
template <> struct DTypeOf<float16> { static constexpr DType value = kFloat16; };
template <> struct DTypeOf<bfloat16> { static constexpr DType value = kBFloat16; };
template <> struct DTypeOf<float> { static constexpr DType value = kFloat32; };
template <> struct DTypeOf<double> { static constexpr DType value = kFloat64; };
template <> struct DTypeOf<int8_t> { static constexpr DType value = kInt8; };
template <> struct DTypeOf<int16_t> { static constexpr DType value = kInt16; };
template <> struct DTypeOf<int32_t> { static constexpr DType value = kInt32; };
template <> struct DTypeOf<int64_t> { static constexpr DType value = kInt64; };
template <> struct DTypeOf<long long> { static constexpr DType value = kInt64; };
template <> struct DTypeOf<uint8_t> { static constexpr DType value = kUInt8; };
template <> struct DTypeOf<bool> { static constexpr DType value = kBool; };
template <> struct DTypeOf<std::string> { static constexpr DType value = kString; };
// clang-format on

}  // namespace cohort::internal
