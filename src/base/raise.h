#pragma once

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <string>

#include "cohort/error.h"

namespace cohort::internal {

// Throws an Error with a formatted message: raise(Code::NotFound, "[Open] no file '{}'", path).
template <typename... Args>
[[noreturn]] void raise(Code code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

// The exception that `part` threw, or null. Unlike a Status, it keeps its type.
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

// The code for an errno of a file, of a descriptor or of memory: NotFound, PermissionDenied,
// AlreadyExists, InvalidArgument, ResourceExhausted (disk, quota, descriptors or memory), DataLoss
// for a broken device, else FailedPrecondition. Never Unavailable, because callers would then wait
// for a lost peer.
Code code_of_errno(int error);

// The system's text for an errno. Unlike std::strerror(), it is safe in several threads.
std::string errno_text(int error);

}  // namespace cohort::internal
