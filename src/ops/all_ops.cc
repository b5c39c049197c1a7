#include "ops/op.h"

namespace cohort::internal {

#define OP(constant) extern const OpDef constant;
#include "ops/op_list.inc"
#undef OP

namespace {
constexpr const OpDef* kAllOps[] = {
#define OP(constant) &constant,
#include "ops/op_list.inc"
#undef OP
};
}  // namespace

std::span<const OpDef* const> all_ops() { return kAllOps; }

}  // namespace cohort::internal
