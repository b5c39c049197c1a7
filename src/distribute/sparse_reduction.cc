#include "distribute/sparse_reduction.h"

#include <algorithm>

#include "cohort/ops.h"

namespace cohort::internal {
namespace {

bool is_sparse(const Gradient& value) { return value.is_sparse(); }

IndexedSlices as_slices(const Gradient& value, const Shape& dense_shape) {
  if (value.is_sparse()) return value.slices();
  return {value.dense(), range(dense_shape[0]), dense_shape};
}

}  // namespace

bool any_sparse(std::span<const Gradient> parts) {
  return std::any_of(parts.begin(), parts.end(), is_sparse);
}

IndexedSlices join_slices(ReduceOp op, std::span<const Gradient> parts) {
  const Shape dense_shape =
      std::find_if(parts.begin(), parts.end(), is_sparse)->slices().dense_shape;
  std::vector<Tensor> values;
  std::vector<Tensor> indices;
  for (const Gradient& part : parts) {
    const IndexedSlices slices = as_slices(part, dense_shape);
    values.push_back(slices.values);
    indices.push_back(cast(slices.indices, kInt64));
  }
  Tensor joined = concat(values, 0);
  if (op == ReduceOp::Mean) joined = div(joined, static_cast<int64_t>(parts.size()));
  return {joined, concat(indices, 0), dense_shape};
}

}  // namespace cohort::internal
