#pragma once

#include <memory>
#include <utility>

#include "transport/connection.h"

namespace cohort::internal {

// Both ends of a connection of a task with itself. A message is delivered by the thread that sends
// it, before send() returns: nothing is woken and nothing waits. So, unlike elsewhere, several
// threads may deliver at the same time.
std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_to_self(
    const Peer& self);

}  // namespace cohort::internal
