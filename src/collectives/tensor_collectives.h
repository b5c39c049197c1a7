#pragma once

#include "collectives/collective_group.h"

// The Communicator's calls for tensors: they check the tensors, run the call and make the results.

namespace cohort::internal {

// Calls without number and deadline. Throw InvalidArgument if the operation does not take the
// dtype.
Call dense_call(CallKind kind, ReduceOp op, const Tensor& value);
Call gather_call(const Tensor& value);  // the first dimension may differ
Call scatter_call(const CollectiveGroup& group, ReduceOp op, const Tensor& value);

// The call with the group's next number.
inline Call next_call(CollectiveGroup& group, Call call, Deadline deadline) {
  call.number = group.next_number();
  call.deadline = deadline;
  return call;
}

Tensor all_reduce_dense(CollectiveGroup& group, Call& call, const Tensor& value);
Tensor broadcast_dense(CollectiveGroup& group, Call& call, const Tensor& value);
Tensor reduce_dense(CollectiveGroup& group, Call& call, const Tensor& value);
Tensor gather_dense(CollectiveGroup& group, Call& call, const Tensor& value);
Tensor reduce_scatter_dense(CollectiveGroup& group, Call& call, const Tensor& value);
std::vector<Tensor> all_to_all_dense(CollectiveGroup& group, Call& call,
                                     const std::vector<Tensor>& parts);

// The result of make(). If it throws, the call is invalid, and the other members learn of that.
template <typename Make>
auto or_refuse(CollectiveGroup& group, const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    group.refuse(error.message());
    throw;
  }
}

// These make several calls each.
std::vector<Tensor> all_reduce_list(CollectiveGroup& group, const std::vector<Tensor>& values,
                                    ReduceOp op, Deadline deadline);
IndexedSlices all_reduce_rows(CollectiveGroup& group, const IndexedSlices& rows, ReduceOp op,
                              Deadline deadline);
void calibrate_group(CollectiveGroup& group, Deadline deadline);

}  // namespace cohort::internal
