#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/raise.h"

namespace cohort::internal {

// Whether the code says that another task is lost or was restarted. Workers that train together
// then go back to the last backup once all of them are there again; a new session may help.
inline bool is_loss(Code code) { return code == Code::Unavailable || code == Code::Aborted; }
// The outcome of a part that a worker did alone, as a text for the other workers; empty for
// success.
std::string outcome_text(const std::exception_ptr& thrown);
// Throws the error of a part that this worker did alone. Unavailable and Aborted become
// FailedPrecondition, because no worker is lost.
void throw_local_failure(Status local);
// Throws the first failure among the outcomes of all workers, so that all workers end alike. The
// error names the worker that failed, and codes of a loss become FailedPrecondition. A single
// worker throws its local exception unchanged, and so does a worker whose exception is not an
// Error.
void throw_first_failure(std::string_view what, const std::exception_ptr& local,
                         const std::vector<std::string>& outcomes);

}  // namespace cohort::internal
