#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cohort {

// Why something failed. The numbers are gRPC's, so a code means the same thing in this process and
// in the one that receives it. What to do follows from the code alone: Unavailable - retry the
// call; Aborted - redo the step from the last checkpoint; FailedPrecondition, InvalidArgument -
// stop and mend the cause.
enum class Code : uint8_t {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  OutOfRange = 11,  // the end of the data, of an iterator or a closed queue; nothing else
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

// "INVALID_ARGUMENT" and so on; "CODE_42" for a number that has no name.
std::string to_string(Code code);
std::ostream& operator<<(std::ostream& out, Code code);

// An outcome as a value: what crosses threads and tasks. The default is success.
struct [[nodiscard]] Status {
  Code code = Code::Ok;
  std::string message = {};  // "[Matmul] inner sizes differ: (2, 3) and (2, 3)"
  std::string origin = {};   // the task that failed first, "/job:worker/task:1"; empty = this one
  bool derived = false;      // a consequence of another failure; reported only when nothing else is
  std::shared_ptr<const Status> cause =
      {};  // what this failure comes from; null when it is the root

  bool ok() const { return code == Code::Ok; }
  // The deepest cause; *this when there is none.
  const Status& root() const;
  // One line: code, message, origin, then each cause after "; caused by ".
  std::string to_string() const;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

// The same outcome as an exception: the one type that the library throws. what() is the status's
// to_string().
class Error : public std::runtime_error {
 public:
  explicit Error(Status status);
  Error(Code code, std::string message);

  Code code() const { return status_.code; }
  const std::string& message() const { return status_.message; }
  const std::string& origin() const { return status_.origin; }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

// Throws `status` as an Error unless it is OK.
void throw_if_error(const Status& status);

namespace internal {
// The exception being handled, as a value. Call only inside a catch block.
Status status_of_current_exception() noexcept;
}  // namespace internal

// Runs `body` and returns what it threw, or OK. A std::exception that is not an Error becomes
// Unknown (std::bad_alloc: ResourceExhausted) with its text.
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
