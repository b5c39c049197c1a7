#pragma once

#include <string>
#include <vector>

#include "cli/supervisor.h"

namespace cohort::cli {

// A frame of a stack, "function at file.cc:12", in one line of a report: of long names the
// beginning.
std::string shortened_frame(const std::string& frame);

// What somebody who comes back to a failed run wants to know, on one screen: which task died and
// why, its last lines and where it was; the others in one line each, or fewer. `log_files` are
// those of the tasks.
std::string failure_report(const Supervisor& run, size_t guilty,
                           const std::vector<std::string>& log_files);

}  // namespace cohort::cli
