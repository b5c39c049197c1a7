#pragma once

#include <atomic>

#include "transport/connection.h"

namespace cohort::internal {

// What a connection counts. Thread-safe.
class TrafficCounter {
 public:
  void sent(size_t bytes) { add(messages_sent_, bytes_sent_, bytes); }
  void received(size_t bytes) { add(messages_received_, bytes_received_, bytes); }
  Traffic read() const {
    return {messages_sent_.load(), messages_received_.load(), bytes_sent_.load(),
            bytes_received_.load()};
  }
  // The same events, counting what comes. The counter must outlive them.
  Connection::Events counting(Connection::Events events) {
    events.received = [this, inner = std::move(events.received)](Message message) {
      received(size_of(message));
      inner(std::move(message));
    };
    return events;
  }

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

}  // namespace cohort::internal
