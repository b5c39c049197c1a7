#pragma once

#include <string>

#include "cohort/error.h"

namespace cohort::internal {

// The code for an errno of a file, of a descriptor or of memory: NotFound, PermissionDenied,
// AlreadyExists, InvalidArgument, ResourceExhausted (disk, quota, descriptors or memory), DataLoss
// for a broken device, else FailedPrecondition. Never Unavailable, because callers would then wait
// for a lost peer.
Code code_of_errno(int error);

// The system's text for an errno. Unlike std::strerror(), it is safe in several threads.
std::string errno_text(int error);

}  // namespace cohort::internal
