#pragma once

#include <string>
#include <vector>

namespace cohort::internal {

// Several texts as one, each after its length.
std::string join_texts(const std::vector<std::string>& texts);
// The texts again. Throws DataLoss unless join_texts() made `joined`.
std::vector<std::string> split_texts(const std::string& joined);

}  // namespace cohort::internal
