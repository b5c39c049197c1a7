#include "transport/in_process.h"

#include <map>

#include "base/mutex.h"
#include "base/raise.h"
#include "base/waiting.h"
#include "transport/direct_connection.h"

namespace cohort::internal {

void MessageQueue::push(Message message, WhenFull when_full) {
  const size_t bytes = size_of(message);
  std::unique_lock lock(mutex_);
  if (when_full == WhenFull::Wait) room_.wait(lock, [&] { return end_ || !is_full(); });
  if (end_) throw_if_error(end_->to_sender);
  messages_.push_back(std::move(message));
  bytes_ += bytes;
  notify_reader();
}

void MessageQueue::end(Status to_reader, Status to_sender) {
  const std::lock_guard lock(mutex_);
  if (end_) return;
  end_ = {std::move(to_reader), std::move(to_sender)};
  room_.notify_all();
  notify_reader();
}

void MessageQueue::discard(Status to_reader, Status to_sender) {
  std::deque<Message> unread;  // freed after the lock: their owners may take locks
  const std::lock_guard lock(mutex_);
  unread.swap(messages_);
  bytes_ = 0;
  if (!end_) end_ = {std::move(to_reader), std::move(to_sender)};
  room_.notify_all();
  notify_reader();
}

std::optional<Message> MessageQueue::take() {
  const std::lock_guard lock(mutex_);
  if (messages_.empty()) return std::nullopt;
  std::optional<Message> first(std::move(messages_.front()));
  messages_.pop_front();
  bytes_ -= size_of(*first);
  news_ = has_news();
  room_.notify_all();
  return first;
}

void MessageQueue::wait(Reader reader, Deadline deadline) {
  spin_until([&] { return news_ && (reader == Reader::Foreground || !attended_); });
  std::unique_lock lock(mutex_);
  Sleeper& mine = sleeper(reader);
  mine.changed.wait_until(lock, deadline, [&] {
    return mine.woken || (has_news() && (reader == Reader::Foreground || !attended_));
  });
  mine.woken = false;
}

namespace {

// One end, which reads one queue and writes the other.
class InProcessConnection : public Connection {
 public:
  InProcessConnection(Peer self, Peer peer, std::shared_ptr<MessageQueue> in,
                      std::shared_ptr<MessageQueue> out)
      : self_(std::move(self)),
        peer_(std::move(peer)),
        in_(in),
        out_(std::move(out)),
        delivery_("in-process", in) {}
  ~InProcessConnection() override { InProcessConnection::close(dropped()); }

  void start(Events events) override { delivery_.start(std::move(events)); }

  void send(Message message) override { push(std::move(message), delivery_.when_full()); }
  void post(Message message) override { push(std::move(message), WhenFull::Grow); }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return delivery_.deliver_until(done, deadline);
  }
  void wake() override { delivery_.wake(); }

  void close(const Status& why) override {
    const Status here = closed_here(why, peer_);
    const Status there = closed_by_peer(why, self_);
    out_->end(there, here);
    in_->discard(here, there);
  }

  const Peer& peer() const override { return peer_; }
  std::string_view kind() const override { return "in-process"; }
  Traffic traffic() const override { return delivery_.traffic(); }

 private:
  void push(Message message, WhenFull when_full) {
    check_no_mutex_held("sends");
    // Before the message goes: a caller that has the answer finds the message counted.
    delivery_.sent(size_of(message));
    out_->push(std::move(message), when_full);
  }

  const Peer self_;
  const Peer peer_;
  const std::shared_ptr<MessageQueue> in_;
  const std::shared_ptr<MessageQueue> out_;
  Delivery delivery_;  // last: its destructor waits for the events, which use the other members
};

}  // namespace

std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_in_process(
    const Peer& first, const Peer& second, QueueLimits limits) {
  auto to_first = std::make_shared<MessageQueue>(limits);
  auto to_second = std::make_shared<MessageQueue>(limits);
  return {std::make_shared<InProcessConnection>(first, second, to_first, to_second),
          std::make_shared<InProcessConnection>(second, first, to_second, to_first)};
}

struct InProcessNetwork::State {
  std::shared_ptr<Connection> connect_locked(const std::string& address, const Peer& self,
                                             HandOff hand_off);

  Mutex mutex;
  std::condition_variable_any changed;
  std::map<std::string, AcceptThread*, std::less<>> listeners;  // guarded by mutex
};

// Calls `accept` on a thread of its own, so that the connecting thread holds no lock of the
// listener.
class InProcessNetwork::AcceptThread : public Listener {
 public:
  AcceptThread(std::shared_ptr<State> state, Peer self, Endpoint::Accept accept)
      : state_(std::move(state)),
        self_(std::move(self)),
        accept_(std::move(accept)),
        thread_("accept", [this](const std::stop_token& stop) { run(stop); }) {
    const std::lock_guard lock(state_->mutex);
    if (!state_->listeners.emplace(self_.address, this).second) {
      raise(Code::AlreadyExists, "[Listen] another endpoint of this process listens at {} already",
            self_.address);
    }
    state_->changed.notify_all();
  }
  ~AcceptThread() override {
    const std::lock_guard lock(state_->mutex);
    state_->listeners.erase(self_.address);
  }

  // The other end of a new connection.
  std::shared_ptr<Connection> connect(const Peer& peer, HandOff hand_off) {
    std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> ends;
    if (hand_off == HandOff::Directly) {
      ends = connect_directly(self_, peer);
    } else {
      ends = connect_in_process(self_, peer);
    }
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(ends.first));
    changed_.notify_one();
    return std::move(ends.second);
  }

 private:
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      std::shared_ptr<Connection> next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      accept_(std::move(next));
      lock.lock();
    }
  }

  const std::shared_ptr<State> state_;
  const Peer self_;
  const Endpoint::Accept accept_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Connection>> waiting_;  // guarded by mutex_
  Thread thread_;
};

std::shared_ptr<Connection> InProcessNetwork::State::connect_locked(const std::string& address,
                                                                    const Peer& self,
                                                                    HandOff hand_off) {
  const auto found = listeners.find(address);
  return found == listeners.end() ? nullptr : found->second->connect(self, hand_off);
}

InProcessNetwork::InProcessNetwork() : state_(std::make_shared<State>()) {}
InProcessNetwork::~InProcessNetwork() = default;

std::unique_ptr<InProcessNetwork::Listener> InProcessNetwork::listen(Peer self,
                                                                     Endpoint::Accept accept) {
  return std::make_unique<AcceptThread>(state_, std::move(self), std::move(accept));
}

std::shared_ptr<Connection> InProcessNetwork::try_connect(const std::string& address,
                                                          const Peer& self, HandOff hand_off) {
  const std::lock_guard lock(state_->mutex);
  return state_->connect_locked(address, self, hand_off);
}

std::shared_ptr<Connection> InProcessNetwork::connect(const std::string& address, const Peer& self,
                                                      Deadline deadline, HandOff hand_off) {
  std::shared_ptr<Connection> connection;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, deadline, [&] {
    connection = state_->connect_locked(address, self, hand_off);
    return connection != nullptr;
  });
  if (connection == nullptr) {
    raise(Code::Unavailable, "[Connect] no endpoint of this process listens at {}", address);
  }
  return connection;
}

InProcessNetwork& network_of_process() {
  static auto* const network = new InProcessNetwork;  // never destroyed: threads may outlive main
  return *network;
}

}  // namespace cohort::internal
