#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/credentials.h"

namespace cohort::internal {

// Requests to the server at "host:port" that need no session. They throw Unavailable when nothing
// listens there.

// Forgets the state of these containers on that task.
void clear_containers(std::string_view address, const std::vector<std::string>& containers,
                      const Credentials& credentials, std::chrono::milliseconds limit);
// Ends its join().
void shut_down_server(std::string_view address, const Credentials& credentials,
                      std::chrono::milliseconds limit);

}  // namespace cohort::internal
