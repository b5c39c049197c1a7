#pragma once

#include <fmt/format.h>

#include "cohort/error.h"

namespace cohort::internal {

// Throws an Error with a formatted message: raise(Code::NotFound, "[Open] no file '{}'", path).
template <typename... Args>
[[noreturn]] void raise(Code code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace cohort::internal
