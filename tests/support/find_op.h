#pragma once

#include "base/raise.h"
#include "ops/op.h"

namespace cohort::internal {

// Throws NotFound if there is no op of that name.
inline const OpDef& find_op(std::string_view name) {
  const OpDef* const op = find_op_or_null(name);
  if (op == nullptr) raise(Code::NotFound, "[Op] there is no op '{}'", name);
  return *op;
}

}  // namespace cohort::internal
