#include "base/system_error.h"

#include <cerrno>
#include <system_error>

namespace cohort::internal {

Code code_of_errno(int error) {
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

std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace cohort::internal
