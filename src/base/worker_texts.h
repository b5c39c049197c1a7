#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/error.h"

namespace cohort::internal {

// Texts that workers exchange.

// Several texts as one, each after its length.
std::string join_texts(const std::vector<std::string>& texts);
// The texts again. Throws DataLoss unless join_texts() made `joined`.
std::vector<std::string> split_texts(const std::string& joined);

// What `part` threw; null when it went well.
std::exception_ptr capture_exception(const std::function<void()>& part);
// How a part that a worker did by itself went, for the other workers; empty when it went well.
std::string outcome_text(const std::exception_ptr& thrown);
// Throws the first failure among the outcomes of all workers, so that each worker ends alike. A
// worker that is alone throws its own. Several name the worker that failed; Unavailable and Aborted
// become FailedPrecondition there, because those codes say that a worker is lost.
void throw_first_failure(std::string_view what, const std::exception_ptr& own,
                         const std::vector<std::string>& outcomes);

}  // namespace cohort::internal
