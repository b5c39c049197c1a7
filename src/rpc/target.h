#pragma once

#include <string>

#include "cohort/credentials.h"

namespace cohort::internal {

// Throws InvalidArgument unless `address` is a host and a port to connect to, and nothing that gRPC
// would take for another kind of address; FailedPrecondition when the token would go there in the
// clear.
void check_target(const std::string& address, const Credentials& credentials);

}  // namespace cohort::internal
