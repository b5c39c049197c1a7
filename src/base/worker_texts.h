#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/exceptions.h"

namespace cohort::internal {

// Texts that workers exchange.

// Several texts as one, each after its length.
std::string join_texts(const std::vector<std::string>& texts);
// The texts again. Throws DataLoss unless join_texts() made `joined`.
std::vector<std::string> split_texts(const std::string& joined);

// Whether the code says that another worker is lost, so that the workers go back to the last
// backup when all are there again.
inline bool is_loss(Code code) { return code == Code::Unavailable || code == Code::Aborted; }
// How a part that a worker did by itself went, for the other workers; empty when it went well.
std::string outcome_text(const std::exception_ptr& thrown);
// Throws what a part that this worker did by itself met, if anything. Its Unavailable and Aborted
// become FailedPrecondition, because no worker is lost.
void throw_own_failure(Status own);
// Throws the first failure among the outcomes of all workers, so that each worker ends alike. A
// worker that is alone throws its own, and so does one whose own is not an Error. Several name the
// worker that failed; codes of a loss become FailedPrecondition there.
void throw_first_failure(std::string_view what, const std::exception_ptr& own,
                         const std::vector<std::string>& outcomes);

}  // namespace cohort::internal
