#pragma once

#include <string_view>

namespace cohort::internal {

// The message of an exception without the backtrace that torch's exceptions add to it: about 20
// lines of frames inside torch, which hide the message in reports and in other workers' logs.
inline std::string_view without_backtrace(std::string_view what) {
  return what.substr(0, what.find("\nException raised from "));
}

}  // namespace cohort::internal
