#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "transport/connection.h"
#include "transport/delivery.h"

namespace cohort::internal {

// What may be on its way before a sender waits. A larger message goes when nothing else is on its
// way.
struct QueueLimits {
  size_t messages = 1024;
  size_t bytes = size_t{256} << 20;
};

// An inbox inside this process. Any thread may push. Thread-safe.
class MessageQueue : public Inbox {
 public:
  explicit MessageQueue(QueueLimits limits = {}) : limits_(limits) {}

  // Throws what ended the queue.
  void push(Message message, WhenFull when_full);
  // Ends the queue: the reader gets `to_reader` after what is in the queue, and push throws
  // `to_sender`. Does nothing when the queue has ended.
  void end(Status to_reader, Status to_sender);
  // As end(), and forgets what is in the queue. Also possible after end().
  void discard(Status to_reader, Status to_sender);

  std::optional<Message> take() override;
  std::optional<Status> ended() override {
    const std::lock_guard lock(mutex_);
    if (!messages_.empty() || !end_) return std::nullopt;
    return end_->to_reader;
  }
  void wait(Reader reader, Deadline deadline) override;
  void wake(Reader reader) override {
    const std::lock_guard lock(mutex_);
    sleeper(reader).woken = true;
    sleeper(reader).changed.notify_all();
  }
  void attend(bool in_foreground) override {
    const std::lock_guard lock(mutex_);
    attended_ = in_foreground;
    if (!in_foreground && has_news()) notify_reader();
  }

 private:
  struct End {
    Status to_reader;
    Status to_sender;
  };
  struct Sleeper {
    std::condition_variable changed;
    bool woken = false;
  };
  bool is_full() const {
    return !messages_.empty() && (messages_.size() >= limits_.messages || bytes_ >= limits_.bytes);
  }
  bool has_news() const { return !messages_.empty() || end_.has_value(); }
  Sleeper& sleeper(Reader reader) {
    return reader == Reader::Foreground ? foreground_ : background_;
  }
  void notify_reader() {
    news_ = true;
    sleeper(attended_ ? Reader::Foreground : Reader::Background).changed.notify_one();
  }

  const QueueLimits limits_;
  // Read without the mutex, changed with it:
  std::atomic<bool> news_ = false;  // has_news()
  std::atomic<bool> attended_ = false;

  std::mutex mutex_;
  std::condition_variable room_;
  // Guarded by mutex_:
  std::deque<Message> messages_;
  size_t bytes_ = 0;
  std::optional<End> end_;
  Sleeper foreground_;
  Sleeper background_;
};

// Both ends of a connection inside this process. Payloads are shared, not copied. The first end
// belongs to `first` and has the peer `second`; the second end the other way round.
std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_in_process(
    const Peer& first, const Peer& second, QueueLimits limits = {});

// The listeners of this process, by address. Thread-safe.
class InProcessNetwork {
 public:
  // Listening ends with this object, which waits for a running call of `accept`.
  class Listener {
   public:
    virtual ~Listener() = default;
  };

  InProcessNetwork();
  ~InProcessNetwork();  // may happen before the end of its listeners

  // `accept` gets this end of every new connection, on a thread of the listener. Throws
  // AlreadyExists when self.address has a listener.
  std::unique_ptr<Listener> listen(Peer self, Endpoint::Accept accept);

  // Directly: see DirectConnection.
  enum class HandOff { Queued, Directly };
  // Null when the address has no listener.
  std::shared_ptr<Connection> try_connect(const std::string& address, const Peer& self,
                                          HandOff hand_off = HandOff::Queued);
  // Waits until the address has a listener. Throws Unavailable at the deadline.
  std::shared_ptr<Connection> connect(const std::string& address, const Peer& self,
                                      Deadline deadline, HandOff hand_off = HandOff::Queued);

 private:
  class AcceptThread;
  struct State;
  std::shared_ptr<State> state_;  // shared with the listeners
};

// The network of this process, by which an endpoint finds neighbours inside its own process.
InProcessNetwork& network_of_process();

}  // namespace cohort::internal
