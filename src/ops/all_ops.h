#pragma once

#include "ops/op.h"

// Every op of the library, one constant each. An op that runs functions, reads files or iterates
// over data is defined in the directory that has these.
namespace cohort::internal {

#define OP(constant) extern const OpDef constant;
#include "ops/op_list.inc"
#undef OP

}  // namespace cohort::internal
