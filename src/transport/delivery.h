#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/connection_ends.h"

namespace cohort::internal {

// What every kind of connection has in common: its counters, and how its messages are delivered.

// Counts the messages of a connection. Thread-safe.
class TrafficCounter {
 public:
  void sent(size_t bytes) { add(messages_sent_, bytes_sent_, bytes); }
  void received(size_t bytes) { add(messages_received_, bytes_received_, bytes); }
  Traffic read() const {
    return {messages_sent_.load(), messages_received_.load(), bytes_sent_.load(),
            bytes_received_.load()};
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

// The connections of an endpoint that still exist, to end them together. Thread-safe.
class OpenConnections {
 public:
  // Closes the connection at once after close_all().
  void add(const std::shared_ptr<Connection>& connection);
  void close_all(const Status& why);

 private:
  Mutex mutex_;
  // Guarded by mutex_:
  std::vector<std::weak_ptr<Connection>> connections_;
  std::optional<Status> closed_;
};

// What a sender does when too much is on its way already: it waits, or the queue grows.
enum class WhenFull { Wait, Grow };

// Where the messages of one connection arrive: what a Delivery reads. Two kinds of threads read an
// inbox, in turn: the connection's own thread (Background), and threads that wait for an answer
// (Foreground).
class Inbox {
 public:
  enum class Reader { Foreground, Background };

  virtual ~Inbox() = default;

  // The next message; nothing when no message has arrived yet, or none will arrive any more. One
  // thread at a time calls it.
  virtual std::optional<Message> take() = 0;
  // Why no message will arrive any more, once everything is taken.
  virtual std::optional<Status> ended() = 0;

  // Returns when take() or ended() may have something new, at the deadline, or after wake(). The
  // background reader sleeps on while the foreground attends, so that a message wakes one thread.
  virtual void wait(Reader reader, Deadline deadline) = 0;
  // Ends a wait of that reader, or its next wait.
  virtual void wake(Reader reader) = 0;
  // Says whether a foreground reader is there. When it leaves and something is left, the background
  // reader wakes.
  virtual void attend(bool in_foreground) = 0;
};

// Takes messages out of an inbox and calls a connection's events, on a thread of its own and on
// threads that call deliver_until: always one call at a time, in order. Every kind of connection
// between two threads has a Delivery, so that all behave alike. Thread-safe.
class Delivery {
 public:
  // `thread_name`: of the background thread, which start() begins.
  Delivery(std::string thread_name, std::shared_ptr<Inbox> inbox);
  // Without a thread of its own: the thread that fills the inbox calls deliver_pending.
  explicit Delivery(std::shared_ptr<Inbox> inbox) : Delivery({}, std::move(inbox)) {}
  // Waits for the end of a running event, unless this thread runs it: an event may drop the last
  // reference to its connection. Nothing is delivered afterwards.
  ~Delivery();

  // As Connection's.
  void start(Connection::Events events);
  bool deliver_until(const std::function<bool()>& done, Deadline deadline);
  void wake();

  // Counts a message that the connection has sent; those that arrive are counted here.
  void sent(size_t bytes);
  Traffic traffic() const;

  // A function that delivers what is in the inbox, on the thread that calls it, unless another
  // thread already delivers. It may be called after the end of this object.
  std::function<void()> deliver_pending() const;

  // Whether an event is running on this thread.
  bool is_delivering_here() const;
  // Grow while an event is running on this thread. Such a thread must not wait for the other side:
  // no thread reads meanwhile, and the other side may be waiting for that.
  WhenFull when_full() const { return is_delivering_here() ? WhenFull::Grow : WhenFull::Wait; }

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the threads that deliver
  std::string thread_name_;
  Thread background_;
};

}  // namespace cohort::internal
