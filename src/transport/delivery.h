#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/thread.h"
#include "transport/connection.h"

namespace cohort::internal {

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
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;
  // Waits for the end of a running event, unless this thread runs it: an event may drop the last
  // reference to its connection. Nothing is delivered afterwards.
  ~Delivery();

  // As Connection's.
  void start(Connection::Events events);
  bool deliver_until(const std::function<bool()>& done, Deadline deadline);
  void wake();

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
