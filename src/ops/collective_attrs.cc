#include "ops/collective_attrs.h"

#include "base/raise.h"

namespace cohort::internal {
namespace {

constexpr double kNoTimeout = -1;

}  // namespace

void set_collective_attrs(Attrs& attrs, std::string_view name, int64_t number,
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

CommunicationOptions options_of(const Attrs& attrs) {
  CommunicationOptions options;
  options.bytes_per_pack = attrs.integer("bytes_per_pack");
  if (attrs.number("timeout") != kNoTimeout) options.timeout_seconds = attrs.number("timeout");
  options.implementation =
      static_cast<CommunicationImplementation>(attrs.integer("implementation"));
  return options;
}

CollectivePurpose purpose_of(const Attrs& attrs) {
  return CollectivePurpose(attrs.get<std::string>("what"),
                           {.file = attrs.get<std::string>("file").c_str(),
                            .line = static_cast<int>(attrs.integer("line"))});
}

ReduceOp reduce_op_of(const Attrs& attrs) { return static_cast<ReduceOp>(attrs.integer("op")); }

void check_reduce_op(const OpInputs& inputs) {
  const int64_t number = inputs.attrs.integer("op");
  if (number >= 0 && number <= static_cast<int64_t>(ReduceOp::Product)) return;
  raise(Code::InvalidArgument, "[{}] there is no reduction number {}", inputs.op, number);
}

int checked_gather_axis(const OpInputs& inputs) {
  const Shape& shape = inputs.shape(0);
  require_rank_at_least(inputs.op, shape, 1, "a value to gather");
  const int64_t axis = inputs.attrs.integer("axis");
  if (axis >= 0 && axis < shape.rank()) return static_cast<int>(axis);
  raise(Code::InvalidArgument, "[{}] axis {} is outside of 0 to {} of shape {}", inputs.op, axis,
        shape.rank() - 1, shape.to_string());
}

}  // namespace cohort::internal
