#pragma once

#include <algorithm>
#include <vector>

#include "base/collective_purpose.h"
#include "cohort/cross_device_ops.h"
#include "ops/dispatch.h"
#include "ops/kernel.h"

// What the ops have in common whose kernels wait for other replicas of this process, or for
// workers.
namespace cohort::internal {

// How they meet, and this thread's purpose and its site.
inline constexpr AttrList kCollectiveAttrs{
    {"bytes_per_pack", AttrKind::Int}, {"timeout", AttrKind::Float},
    {"implementation", AttrKind::Int}, {"what", AttrKind::Text},
    {"file", AttrKind::Text},          {"line", AttrKind::Int}};
// Sets the attribute `name`, the number of the place where they meet, and kCollectiveAttrs.
void set_collective_attrs(Attrs& attrs, std::string_view name, int64_t number,
                          const CommunicationOptions& options);
CommunicationOptions options_of(const Attrs& attrs);
// The purpose that it was made for, again; the attributes must outlive it.
CollectivePurpose purpose_of(const Attrs& attrs);

// The attribute "op". InvalidArgument for a number that is none.
ReduceOp reduce_op_of(const Attrs& attrs);
void check_reduce_op(const OpInputs& inputs);

// The attribute "axis" of a value of known rank. Throws InvalidArgument for a scalar, and for an
// axis that the value does not have.
int checked_gather_axis(const OpInputs& inputs);

// Runs `body`, which may be a user's code, as if no kernel called it.
template <typename Body>
void set_outputs(Kernel& k, const Body& body) {
  const PlainDispatch plain;
  const OutsideKernel outside;
  const CollectivePurpose purpose = purpose_of(k.attrs);
  const std::vector<Tensor> results = body();
  std::copy(results.begin(), results.end(), k.outputs.begin());
}

}  // namespace cohort::internal
