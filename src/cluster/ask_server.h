#pragma once

#include <chrono>
#include <string_view>

#include "cluster/protocol.h"
#include "cohort/cluster.h"

namespace cohort::internal {

// Requests to the server at "host:port" that need no session. They throw Unavailable when nothing
// listens there.

// Forgets the state of these containers on that task. Throws FailedPrecondition if a later chief
// has one of them.
void clear_containers(std::string_view address, const ClearContainers& request,
                      const Credentials& credentials, std::chrono::milliseconds limit);
// Ends its join().
void shut_down_server(std::string_view address, const Credentials& credentials,
                      std::chrono::milliseconds limit);

}  // namespace cohort::internal
