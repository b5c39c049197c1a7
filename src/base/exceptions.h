#pragma once

#include <exception>
#include <functional>

#include "cohort/error.h"

namespace cohort::internal {

// Exceptions as values that keep their type, where a Status would not.

// What `part` threw; null when it went well.
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

// The same as a Status; OK for null.
inline Status status_of(const std::exception_ptr& thrown) {
  return capture_status([&] { rethrow_if_any(thrown); });
}

}  // namespace cohort::internal
