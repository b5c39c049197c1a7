#pragma once

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

}  // namespace cohort::internal
