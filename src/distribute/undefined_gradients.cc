#include "distribute/undefined_gradients.h"

#include <algorithm>

#include "cohort/ops.h"

namespace cohort::internal {
namespace {

Gradient zero_like(const Gradient& other) {
  if (!other.is_sparse()) return zeros_like(other.dense());
  const IndexedSlices& slices = other.slices();
  const std::vector<Range> none{{.begin = 0, .end = 0}};
  return IndexedSlices{slice(slices.values, none), slice(slices.indices, none), slices.dense_shape};
}

}  // namespace

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
