#include "cohort/error.h"

#include <array>
#include <cerrno>
#include <new>
#include <ostream>
#include <system_error>

#include "base/backtrace_text.h"
#include "base/raise.h"

namespace cohort {
namespace {

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

// The text of a master names the task at its beginning: "From /job:ps/task:0: [Gather] ..."
bool names_origin(const Status& status) {
  return status.message.starts_with("From " + status.origin + ":");
}

std::string own_line(const Status& status) {
  std::string line = to_string(status.code);
  if (!status.message.empty()) line += ": " + status.message;
  if (!status.origin.empty() && !names_origin(status)) line += " (from " + status.origin + ")";
  return line;
}

}  // namespace

std::string to_string(Code code) {
  const auto number = static_cast<size_t>(code);
  if (number < kCodeNames.size()) return std::string(kCodeNames[number]);
  return "CODE_" + std::to_string(number);
}

std::ostream& operator<<(std::ostream& out, Code code) { return out << to_string(code); }

const Status& Status::root() const {
  const Status* status = this;
  while (status->cause) status = status->cause.get();
  return *status;
}

std::string Status::to_string() const {
  std::string text = own_line(*this);
  for (const Status* next = cause.get(); next != nullptr; next = next->cause.get()) {
    text += "; caused by " + own_line(*next);
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.to_string();
}

Error::Error(Status status) : std::runtime_error(status.to_string()), status_(std::move(status)) {}

Error::Error(Code code, std::string message)
    : Error(Status{.code = code, .message = std::move(message)}) {}

void throw_if_error(const Status& status) {
  if (!status.ok()) throw Error(status);
}

Status internal::status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return {.code = Code::ResourceExhausted, .message = "out of memory"};
  } catch (const std::exception& error) {
    return {.code = Code::Unknown, .message = std::string(without_backtrace(error.what()))};
  } catch (...) {
    return {.code = Code::Unknown, .message = "an exception of unknown type was thrown"};
  }
}

Code internal::code_of_errno(int error) {
  switch (error) {
    case ENOENT:
      return Code::NotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::PermissionDenied;
    case EEXIST:
    case EADDRINUSE:
      return Code::AlreadyExists;
    case EINVAL:
    case ENAMETOOLONG:
      return Code::InvalidArgument;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return Code::ResourceExhausted;
    case EIO:
      return Code::DataLoss;
    default:
      return Code::FailedPrecondition;
  }
}

std::string internal::errno_text(int error) { return std::generic_category().message(error); }

}  // namespace cohort
