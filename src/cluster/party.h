#pragma once

#include <memory>

#include "transport/party.h"

namespace cohort::internal {

// How this process takes part in a cluster: as a task that listens, or as a client.
std::unique_ptr<Party> make_task_party(Peer self, Party::Accept accept);
std::unique_ptr<Party> make_client_party();

// A new random number for a task that starts.
uint64_t new_incarnation();

}  // namespace cohort::internal
