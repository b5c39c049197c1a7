#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/connection.h"

namespace cohort::internal {

// What every kind of connection has in common: the statuses with which it ends, and its counters.

// What the two sides of a connection see when one of them closes it with `why`. Never OK. To the
// other side a status without an origin comes from the side that closed.
Status closed_here(const Status& why, const Peer& peer);
Status closed_by_peer(const Status& why, const Peer& who_closed);
// For close(): the connection object is being destroyed; the endpoint stops.
Status dropped();
Status server_stopped();

// Counts the messages of a connection. Thread-safe.
class TrafficCounter {
 public:
  void sent(size_t bytes) { add(messages_sent_, bytes_sent_, bytes); }
  void received(size_t bytes) { add(messages_received_, bytes_received_, bytes); }
  Traffic read() const {
    return {messages_sent_.load(), messages_received_.load(), bytes_sent_.load(),
            bytes_received_.load()};
  }
  // The same events, which also count what arrives. The counter must outlive them.
  Connection::Events counting(Connection::Events events);

 private:
  using Counter = std::atomic<uint64_t>;
  static void add(Counter& messages, Counter& bytes, size_t size) {
    messages.fetch_add(1, std::memory_order_relaxed);
    bytes.fetch_add(size, std::memory_order_relaxed);
  }

  Counter messages_sent_ = 0;
  Counter messages_received_ = 0;
  Counter bytes_sent_ = 0;
  Counter bytes_received_ = 0;
};

// The connections of an endpoint that still exist, to end them together. Thread-safe.
class OpenConnections {
 public:
  // Closes the connection at once after close_all().
  void add(const std::shared_ptr<Connection>& connection);
  void close_all(const Status& why);

 private:
  std::mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::weak_ptr<Connection>> connections_;
  std::optional<Status> closed_;
};

}  // namespace cohort::internal
