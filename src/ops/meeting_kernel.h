#pragma once

#include <algorithm>
#include <vector>

#include "base/purpose.h"
#include "cohort/cross_device_ops.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"
#include "ops/scoped_kernel.h"

// What the ops have in common whose kernels wait for others: replicas of this process, or workers.
namespace cohort::internal {

// How they meet, and this thread's purpose and its site.
inline constexpr AttrList kMeetingAttrs{
    {"bytes_per_pack", AttrKind::Int}, {"timeout", AttrKind::Float},
    {"implementation", AttrKind::Int}, {"what", AttrKind::Text},
    {"file", AttrKind::Text},          {"line", AttrKind::Int}};
// Sets the attribute `name`, the number of the place where they meet, and kMeetingAttrs.
void set_meeting(Attrs& attrs, std::string_view name, int64_t number,
                 const CommunicationOptions& options);
CommunicationOptions options_of(const Attrs& attrs);
// The purpose that it was made for, again; the attributes must outlive it.
CollectivePurpose purpose_of(const Attrs& attrs);

// The attribute "op". InvalidArgument for a number that is none.
ReduceOp reduce_op_of(const Attrs& attrs);
void check_reduce_op(const OpInputs& inputs);

// The attribute "axis" of a value of known rank. InvalidArgument for a scalar, or one outside of
// its axes.
int checked_gather_axis(const OpInputs& inputs);

// Runs what may be anybody's code as if it were called from outside of a kernel.
template <typename Body>
void set_outputs(Kernel& k, const Body& body) {
  const PlainDispatch plain;
  const OutsideKernel outside;
  const CollectivePurpose purpose = purpose_of(k.attrs);
  const std::vector<Tensor> results = body();
  std::copy(results.begin(), results.end(), k.outputs.begin());
}

}  // namespace cohort::internal
