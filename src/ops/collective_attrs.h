#pragma once

#include <algorithm>
#include <vector>

#include "base/collective_purpose.h"
#include "base/raise.h"
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
inline constexpr double kNoTimeout = -1;
// Sets the attribute `name`, the number of the place where they meet, and kCollectiveAttrs.
inline void set_collective_attrs(Attrs& attrs, std::string_view name, int64_t number,
                                 const CommunicationOptions& options) {
  attrs.set(name, number);
  attrs.set("bytes_per_pack", options.bytes_per_pack);
  attrs.set("timeout", options.timeout_seconds.value_or(kNoTimeout));
  attrs.set("implementation", static_cast<int64_t>(options.implementation));
  const CollectivePurpose* const purpose = CollectivePurpose::current();
  const Site site = purpose != nullptr ? purpose->site() : Site();
  attrs.set("what", std::string(purpose != nullptr ? purpose->text() : ""));
  attrs.set("file", std::string(site.file));
  attrs.set("line", int64_t{site.line});
}

inline CommunicationOptions options_of(const Attrs& attrs) {
  CommunicationOptions options;
  options.bytes_per_pack = attrs.integer("bytes_per_pack");
  if (attrs.number("timeout") != kNoTimeout) options.timeout_seconds = attrs.number("timeout");
  options.implementation =
      static_cast<CommunicationImplementation>(attrs.integer("implementation"));
  return options;
}

// The purpose that it was made for, again; the attributes must outlive it.
inline CollectivePurpose purpose_of(const Attrs& attrs) {
  return CollectivePurpose(attrs.get<std::string>("what"),
                           {.file = attrs.get<std::string>("file").c_str(),
                            .line = static_cast<int>(attrs.integer("line"))});
}

// The attribute "op". InvalidArgument for a number that is none.
inline ReduceOp reduce_op_of(const Attrs& attrs) {
  return static_cast<ReduceOp>(attrs.integer("op"));
}
inline void check_reduce_op(const OpInputs& inputs) {
  const int64_t number = inputs.attrs.integer("op");
  if (number >= 0 && number <= static_cast<int64_t>(ReduceOp::Product)) return;
  raise(Code::InvalidArgument, "[{}] there is no reduction number {}", inputs.op, number);
}

// The attribute "axis" of a value of known rank. Throws InvalidArgument for a scalar, and for an
// axis that the value does not have.
inline int checked_gather_axis(const OpInputs& inputs) {
  const Shape& shape = inputs.shape(0);
  require_rank_at_least(inputs.op, shape, 1, "a value to gather");
  const int64_t axis = inputs.attrs.integer("axis");
  if (axis >= 0 && axis < shape.rank()) return static_cast<int>(axis);
  raise(Code::InvalidArgument, "[{}] axis {} is outside of 0 to {} of shape {}", inputs.op, axis,
        shape.rank() - 1, shape.to_string());
}

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
