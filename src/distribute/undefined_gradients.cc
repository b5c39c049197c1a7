#include "distribute/undefined_gradients.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>

#include "cohort/ops.h"
#include "distribute/distributed_variable.h"

namespace cohort::internal {
namespace {

bool comes_as_rows(const Gradient& value) { return value.defined() && value.is_sparse(); }
bool is_missing(const Gradient& value) { return !value.defined(); }

// ", none for 'a', 'b'": the values with that property, by their names.
template <typename Name>
std::string named_where(std::string_view what, const std::vector<Gradient>& values,
                        bool (*has)(const Gradient&), const Name& name) {
  std::vector<std::string> found;
  for (size_t i = 0; i < values.size(); ++i) {
    if (has(values[i])) found.push_back(name(i));
  }
  return found.empty() ? "" : fmt::format(", {} for {}", what, fmt::join(found, ", "));
}

template <typename Name>
std::string presence_text(const std::vector<Gradient>& values, const Name& name) {
  return named_where("none", values, is_missing, name) +
         named_where("rows", values, comes_as_rows, name);
}

}  // namespace

Gradient zero_like(const Gradient& other) {
  if (!other.is_sparse()) return zeros_like(other.dense());
  const IndexedSlices& slices = other.slices();
  const std::vector<Range> none{{.begin = 0, .end = 0}};
  return IndexedSlices{slice(slices.values, none), slice(slices.indices, none), slices.dense_shape};
}

Gradient zero_gradient(DType dtype, const Shape& shape, bool has_rows) {
  if (!has_rows) return zeros(shape, dtype);
  return IndexedSlices{zeros(shape.with(0, 0), dtype), zeros({0}, kInt64), shape};
}

std::string describe_presence(const std::vector<Gradient>& values) {
  const std::string different =
      presence_text(values, [](size_t i) { return fmt::format("number {}", i); });
  if (different.empty()) return "all_reduce";
  return fmt::format("all_reduce of {} values{}", values.size(), different);
}

std::string describe_presence(const std::vector<Gradient>& gradients,
                              const std::vector<Variable>& variables) {
  uint64_t list = 0;
  for (const std::string& label : labels_of(variables)) {
    list = XXH3_64bits_withSeed(label.data(), label.size(), list);
  }
  return fmt::format(
      "the gradients of {} variables [{:x}]{}", variables.size(), list,
      presence_text(gradients, [&](size_t i) { return fmt::format("'{}'", variables[i].name()); }));
}

bool fill_undefined(ReduceOp op, std::vector<Gradient>& parts) {
  const auto known =
      std::find_if(parts.begin(), parts.end(), [](const Gradient& part) { return part.defined(); });
  if (known == parts.end()) return false;
  if (op != ReduceOp::Sum && op != ReduceOp::Mean) return true;
  const Gradient other = *known;
  for (Gradient& part : parts) {
    if (!part.defined()) part = zero_like(other);
  }
  return true;
}

}  // namespace cohort::internal
