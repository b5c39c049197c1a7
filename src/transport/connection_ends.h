#pragma once

#include "transport/connection.h"

namespace cohort::internal {

// What the two sides of a connection see when one of them closes it with `why`. Never OK. To the
// other side a status without an origin comes from the side that closed.
Status closed_here(const Status& why, const Peer& peer);
Status closed_by_peer(const Status& why, const Peer& who_closed);
// For close(): the connection object is being destroyed; the endpoint stops.
Status dropped();
Status server_stopped();

}  // namespace cohort::internal
