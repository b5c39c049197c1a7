#pragma once

#include <string_view>

#include "base/raise.h"

namespace cohort::internal {

// For what the other process wrote or sent and no process of ours would.
[[noreturn]] inline void raise_nonsense(std::string_view what) {
  raise(Code::DataLoss, "[Connection] the other side sent nonsense: {}", what);
}

}  // namespace cohort::internal
