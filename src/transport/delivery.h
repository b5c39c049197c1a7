#pragma once

#include <memory>
#include <string>

#include "base/thread.h"
#include "transport/inbox.h"

namespace cohort::internal {

// Takes messages out of an inbox and calls a connection's events, on a thread of its own and on
// those that call deliver_until: always one call at a time, in order. Every kind of connection has
// one, so that all behave alike. Thread-safe.
class Delivery {
 public:
  // `thread_name`: of the background thread, which start() begins.
  Delivery(std::string thread_name, std::shared_ptr<Inbox> inbox);
  // Without a thread of its own: whoever fills the inbox calls deliver_pending.
  explicit Delivery(std::shared_ptr<Inbox> inbox) : Delivery({}, std::move(inbox)) {}
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;
  // Waits for the end of a call that is running, unless it is this thread's own: an event may drop
  // the last reference to its connection. Nothing is delivered afterwards.
  ~Delivery();

  // As Connection's.
  void start(Connection::Events events);
  bool deliver_until(const std::function<bool()>& done, Deadline deadline);
  void wake();

  // A function that delivers what is in the inbox, on the thread that calls it, unless others are
  // there for that. It may be called after the end of this object.
  std::function<void()> deliver_pending() const;

  // Whether an event is running on this thread. Such a thread must not wait for the other side:
  // nobody reads meanwhile, and the other side may be waiting for that.
  bool is_delivering_here() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the threads that deliver
  std::string thread_name_;
  Thread background_;
};

}  // namespace cohort::internal
