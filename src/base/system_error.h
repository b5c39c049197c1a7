#pragma once

#include <string>

#include "cohort/error.h"

namespace cohort::internal {

// What an errno of a file, of a descriptor or of memory means to callers: NotFound,
// PermissionDenied, AlreadyExists, InvalidArgument, ResourceExhausted (disk, quota, descriptors or
// memory), DataLoss for a broken device, else FailedPrecondition. Never Unavailable, which says
// that a peer is lost, so that callers wait for the peer.
Code code_of_errno(int error);

// The system's words for it; unlike std::strerror(), for several threads.
std::string errno_text(int error);

}  // namespace cohort::internal
