#include "ops/spec_list.h"

#include "base/raise.h"

namespace cohort::internal {

std::vector<int64_t> pack_specs(std::span<const Spec> specs) {
  std::vector<int64_t> packed;
  for (const Spec& spec : specs) {
    packed.push_back(static_cast<int64_t>(spec.dtype));
    packed.push_back(spec.shape.rank());
    packed.insert(packed.end(), spec.shape.begin(), spec.shape.end());
  }
  return packed;
}

namespace {

[[noreturn]] void raise_malformed(std::string_view op) {
  raise(Code::InvalidArgument, "[{}] the list of dtypes and shapes is malformed", op);
}

}  // namespace

Specs unpack_specs(std::string_view op, std::span<const int64_t> packed) {
  constexpr int64_t kLargest = int64_t{1} << 46;  // what infers shapes may add and double sizes
  Specs specs;
  while (!packed.empty()) {
    if (packed.size() < 2) raise_malformed(op);
    const int64_t dtype = packed[0];
    const int64_t rank = packed[1];
    packed = packed.subspan(2);
    const bool sized =
        rank >= 0 && rank <= Shape::kMaxRank && packed.size() >= static_cast<size_t>(rank);
    if (dtype < 0 || dtype > static_cast<int64_t>(DType::String) || (rank != -1 && !sized)) {
      raise_malformed(op);
    }
    const std::span<const int64_t> sizes = packed.first(rank < 0 ? 0 : static_cast<size_t>(rank));
    for (const int64_t size : sizes) {
      if (size < Shape::kUnknownDim || size > kLargest) raise_malformed(op);
    }
    specs.push_back({static_cast<DType>(dtype), rank < 0 ? Shape::unknown() : Shape(sizes)});
    packed = packed.subspan(sizes.size());
  }
  return specs;
}

std::string to_string(std::span<const Spec> specs) {
  std::string text;
  for (const Spec& spec : specs) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", cohort::to_string(spec.dtype), spec.shape.to_string());
  }
  return "(" + text + ")";
}

}  // namespace cohort::internal
