#include "transport/connection_state.h"

#include <fmt/format.h>

#include <utility>

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
  return {Code::Unavailable, "[Connection] the other side let go of the connection"};
}

Status server_stopped() { return {Code::Cancelled, "[Server] the server was stopped"}; }

Connection::Events TrafficCounter::counting(Connection::Events events) {
  events.received = [this, inner = std::move(events.received)](Message message) {
    received(size_of(message));
    inner(std::move(message));
  };
  return events;
}

void OpenConnections::add(const std::shared_ptr<Connection>& connection) {
  std::optional<Status> closed;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(connections_, [](const auto& known) { return known.expired(); });
    if (!closed_) connections_.push_back(connection);
    closed = closed_;
  }
  if (closed) connection->close(*closed);
}

void OpenConnections::close_all(const Status& why) {
  std::vector<std::weak_ptr<Connection>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(connections_);
    if (!closed_) closed_ = why;
  }
  for (const auto& known : ending) {
    if (const auto connection = known.lock()) connection->close(why);
  }
}

}  // namespace cohort::internal
