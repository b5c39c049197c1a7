#include "base/raise.h"
#include "collectives/arithmetic.h"
#include "collectives/dense.h"
#include "tensor/memory.h"
#include "tensor/reduce_elements.h"

namespace cohort::internal {
namespace {

Tensor gather(CollectiveGroup& group, const Tensor& own, const std::string& detail,
              Deadline deadline) {
  Call call = gather_call(own);
  call.detail = detail;
  call.number = group.next_number();
  call.deadline = deadline;
  return gather_dense(group, call, own);
}

Tensor divided(const Tensor& sums, int divisor) {
  const WritableTensor result =
      allocate_tensor(reduced_dtype(ReduceOp::Mean, sums.dtype()), sums.shape());
  divide(sums.dtype(), element_bytes(sums), sums.size(), divisor, result.data);
  return result.tensor;
}

void check_rows(const IndexedSlices& rows, ReduceOp op) {
  if (op != ReduceOp::Sum && op != ReduceOp::Mean) {
    raise(Code::InvalidArgument,
          "[AllReduce] rows of a tensor have Sum and Mean, not {}; make them dense", to_string(op));
  }
  dense_call(CallKind::AllReduce, op, rows.values);  // checks the dtype
  const Shape values = rows.values.shape();
  const Shape indices = rows.indices.shape();
  const bool fit = rows.indices.dtype() == kInt64 && indices.rank() == 1 && values.rank() > 0 &&
                   values[0] == indices[0] && rows.dense_shape.rank() == values.rank() &&
                   values.without(0) == rows.dense_shape.without(0);
  if (fit) return;
  raise(Code::InvalidArgument,
        "[AllReduce] values of shape {} and {} indices of shape {} are no rows of a tensor of "
        "shape {}; give an int64 index for each row",
        values.to_string(), to_string(rows.indices.dtype()), indices.to_string(),
        rows.dense_shape.to_string());
}

}  // namespace

IndexedSlices all_reduce_rows(CollectiveGroup& group, const IndexedSlices& rows, ReduceOp op,
                              Deadline deadline) {
  or_refuse(group, [&] { check_rows(rows, op); });
  const std::string whole =
      fmt::format("{} rows of {}", to_string(rows.values.dtype()), rows.dense_shape.to_string());
  IndexedSlices all;
  all.dense_shape = rows.dense_shape;
  all.values = gather(group, rows.values, to_string(op) + " of " + whole, deadline);
  all.indices = gather(group, rows.indices, "the indices of " + whole, deadline);
  if (op == ReduceOp::Mean) all.values = divided(all.values, group.size());
  return all;
}

}  // namespace cohort::internal
