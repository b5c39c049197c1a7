#include "transport/connection_ends.h"

#include <fmt/format.h>

namespace cohort::internal {

Status closed_here(const Status& why, const Peer& peer) {
  Status status{Code::Cancelled,
                fmt::format("[Connection] this side closed the connection to {}", peer.name)};
  if (!why.ok()) status.cause = std::make_shared<const Status>(why);
  return status;
}

Status closed_by_peer(const Status& why, const Peer& who_closed) {
  Status status = why;
  if (why.ok()) {
    status = {Code::Cancelled,
              fmt::format("[Connection] {} closed the connection", who_closed.name)};
  }
  if (status.origin.empty()) status.origin = who_closed.name;
  return status;
}

Status dropped() {
  return {Code::Unavailable, "[Connection] the other side dropped the connection"};
}

Status server_stopped() { return {Code::Cancelled, "[Server] the server was stopped"}; }

}  // namespace cohort::internal
