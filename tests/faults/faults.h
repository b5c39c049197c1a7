#pragma once

#include <string>

#include "support/eventually.h"

namespace cohort::test {

// The number of the last whole line "word number"; -1 when there is none.
inline double last_number(const std::string& output, const std::string& word) {
  const size_t end = output.rfind('\n');
  if (end == std::string::npos || end < word.size()) return -1;
  const size_t begin = output.rfind(word + " ", end - 1);
  return begin == std::string::npos ? -1 : std::stod(output.substr(begin + word.size() + 1));
}

}  // namespace cohort::test
