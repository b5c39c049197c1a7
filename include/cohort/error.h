#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cohort {

// Site is the source line of the user's program that called an operation. Functions that make graph
// nodes take a Site as their last parameter, by default here(), so that errors can name the line.
struct Site {
  const char* file = "";
  int line = 0;

  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Code is the reason of a failure. The numbers are those of gRPC, so a code means the same in the
// process that fails and in the process that receives the failure. The code alone tells what to do.
// Unavailable: retry the call. Aborted: redo the step from the last checkpoint. FailedPrecondition,
// InvalidArgument: stop and fix the cause.
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
  OutOfRange = 11,  // only the end of the data, of an iterator or of a closed queue
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

// Returns "INVALID_ARGUMENT" and so on; "CODE_42" for a number without a name.
std::string to_string(Code code);
std::ostream& operator<<(std::ostream& out, Code code);

// Status is an outcome as a value, which can cross threads and tasks. The default is success.
struct [[nodiscard]] Status {
  Code code = Code::Ok;
  std::string message = {};  // "[Matmul] inner sizes differ: (2, 3) and (2, 3)"
  std::string origin = {};   // the task that failed first, "/job:worker/task:1"; empty: this task
  bool derived = false;      // follows from another failure; reported only if no other failure is
  std::shared_ptr<const Status> cause =
      {};  // the failure that led to this failure; null if this failure is the root

  bool ok() const { return code == Code::Ok; }
  // Returns the deepest cause, or *this if it has no cause.
  const Status& root() const;
  // Returns one line: code, message, origin, then each cause after "; caused by ".
  std::string to_string() const;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

// Error is a Status as an exception, the only type that the library throws. what() is its text.
//
//   try {
//     model(x);
//   } catch (const Error& error) {
//     if (error.code() != Code::Unavailable) throw;
//   }
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

// Runs `body` and returns what it threw, or OK. A std::exception that is not an Error becomes
// Unknown, with its text; std::bad_alloc becomes ResourceExhausted.
template <std::invocable Body>
Status capture_status(Body&& body) noexcept;

}  // namespace cohort

#include "cohort/internal/error_inl.h"  // IWYU pragma: export
