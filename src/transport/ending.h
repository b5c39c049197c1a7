#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/connection.h"

namespace cohort::internal {

// What the two sides of a connection see when one closes it with `why`. Never OK. To the other side
// a status without an origin comes from who closed.
Status closed_here(const Status& why, const Peer& peer);
Status closed_by_peer(const Status& why, const Peer& who_closed);
// For close(): the connection object is being destroyed; the endpoint stops.
Status dropped();
Status server_stopped();

// The connections of an endpoint that are still there, to end them together. Thread-safe.
class OpenConnections {
 public:
  // Closes it at once after close_all().
  void add(const std::shared_ptr<Connection>& connection);
  void close_all(const Status& why);

 private:
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::weak_ptr<Connection>> connections_;
  std::optional<Status> closed_;
};

}  // namespace cohort::internal
