#include "cohort/dtype.h"

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "base/raise.h"
#include "tensor/aten.h"

namespace cohort {
namespace {

struct DTypeInfo {
  std::string_view name;
  int64_t size;
};

constexpr std::array<DTypeInfo, 12> kInfo = {{{"float16", 2},
                                              {"bfloat16", 2},
                                              {"float32", 4},
                                              {"float64", 8},
                                              {"int8", 1},
                                              {"int16", 2},
                                              {"int32", 4},
                                              {"int64", 8},
                                              {"uint8", 1},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"resource", 0}}};

const DTypeInfo& info(DType dtype) { return kInfo.at(static_cast<size_t>(dtype)); }

}  // namespace

std::string to_string(DType dtype) { return std::string(info(dtype).name); }

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << info(dtype).name; }

DType parse_dtype(std::string_view name) {
  const auto found = std::find_if(kInfo.begin(), kInfo.end(),
                                  [&](const DTypeInfo& entry) { return entry.name == name; });
  if (found != kInfo.end()) return static_cast<DType>(found - kInfo.begin());
  std::vector<std::string_view> names;
  for (const DTypeInfo& entry : kInfo) names.push_back(entry.name);
  internal::raise(Code::InvalidArgument, "[DType] '{}' is not a dtype; the dtypes are {}", name,
                  fmt::join(names, ", "));
}

bool is_floating(DType dtype) { return dtype <= DType::Float64; }
bool is_integer(DType dtype) { return dtype >= DType::Int8 && dtype <= DType::UInt8; }
bool is_numeric(DType dtype) { return dtype <= DType::Bool; }
int64_t size_of(DType dtype) { return info(dtype).size; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (!is_numeric(a) || !is_numeric(b)) {
    internal::raise(Code::InvalidArgument, "[DType] {} and {} have no common dtype", to_string(a),
                    to_string(b));
  }
  return internal::from_aten(c10::promoteTypes(internal::to_aten(a), internal::to_aten(b)));
}

float16::float16(float value) : bits(c10::Half(value).x) {}
float16::operator float() const { return c10::Half(bits, c10::Half::from_bits()); }
bfloat16::bfloat16(float value) : bits(c10::BFloat16(value).x) {}
bfloat16::operator float() const { return c10::BFloat16(bits, c10::BFloat16::from_bits()); }

}  // namespace cohort
