#pragma once

#include <memory>

#include "transport/connection.h"
#include "transport/peer_signals.h"
#include "transport/shared_mapping.h"

namespace cohort::internal {

// `outgoing`: the direction in which this side sends.
std::shared_ptr<Connection> make_shared_connection(std::shared_ptr<SharedMapping> mapping,
                                                   std::shared_ptr<PeerSignals> bells, int outgoing,
                                                   Peer self, Peer peer);

}  // namespace cohort::internal
