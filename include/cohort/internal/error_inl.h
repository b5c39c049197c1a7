#pragma once

// The definition of capture_status(). Not for inclusion by users: include cohort/error.h.

#include "cohort/error.h"

namespace cohort {

namespace internal {
// Returns the exception that is being handled as a Status. Call it only inside a catch block.
Status status_of_current_exception() noexcept;
}  // namespace internal

template <std::invocable Body>
Status capture_status(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return {};
  } catch (...) {
    return internal::status_of_current_exception();
  }
}

}  // namespace cohort
