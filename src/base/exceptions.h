#pragma once

#include <exception>
#include <functional>

#include "cohort/error.h"

namespace cohort::internal {

// Exceptions as values. Unlike a Status, such a value keeps the type of the exception.

// The exception that `part` threw, or null.
inline std::exception_ptr capture_exception(const std::function<void()>& part) {
  try {
    part();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

inline void rethrow_if_any(const std::exception_ptr& thrown) {
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

// The exception as a Status; OK for null.
inline Status status_of(const std::exception_ptr& thrown) {
  return capture_status([&] { rethrow_if_any(thrown); });
}

}  // namespace cohort::internal
