#pragma once

#include <string>
#include <vector>

#include "cli/child.h"

namespace cohort::cli {

// Becomes cohort-compute with these words. Only returns by throwing NotFound, when that program is
// not there.
[[noreturn]] void become_compute(const std::vector<std::string>& words,
                                 const Environment& environment = {});

}  // namespace cohort::cli
