#include <condition_variable>
#include <deque>

#include "base/raise.h"
#include "transport/direct.h"
#include "transport/ending.h"
#include "transport/in_process.h"

namespace cohort::internal {

// Calls `accept` on a thread of its own, so that who connects holds no lock of who listens.
class InProcessNetwork::AcceptThread {
 public:
  AcceptThread(Peer self, Party::Accept accept)
      : self_(std::move(self)),
        accept_(std::move(accept)),
        thread_("accept", [this](const std::stop_token& stop) { run(stop); }) {}

  // The other end of a new connection.
  std::shared_ptr<Connection> connect(const Peer& peer, Hand hand) {
    std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> ends;
    if (hand == Hand::Directly) {
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

  const Peer self_;
  const Party::Accept accept_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Connection>> waiting_;  // guarded by mutex_
  Thread thread_;
};

struct InProcessNetwork::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, AcceptThread*, std::less<>> listeners;  // guarded by mutex

  std::shared_ptr<Connection> connect_locked(const std::string& address, const Peer& self,
                                             Hand hand) {
    const auto found = listeners.find(address);
    return found == listeners.end() ? nullptr : found->second->connect(self, hand);
  }
};

class InProcessNetwork::Registered : public Listener {
 public:
  Registered(std::shared_ptr<State> state, const Peer& self, Party::Accept accept)
      : state_(std::move(state)), address_(self.address), accepting_(self, std::move(accept)) {
    const std::lock_guard lock(state_->mutex);
    if (!state_->listeners.emplace(address_, &accepting_).second) {
      raise(Code::AlreadyExists, "[Listen] somebody of this process listens at {} already",
            address_);
    }
    state_->changed.notify_all();
  }
  ~Registered() override {
    const std::lock_guard lock(state_->mutex);
    state_->listeners.erase(address_);
  }

 private:
  const std::shared_ptr<State> state_;
  const std::string address_;
  AcceptThread accepting_;
};

namespace {

class InProcessEndpoint : public Party {
 public:
  InProcessEndpoint(InProcessNetwork& network, Peer self, Accept accept)
      : network_(network), self_(std::move(self)) {
    if (!accept) return;
    listener_ = network.listen(self_, [this, accept = std::move(accept)](auto connection) {
      connections_.add(connection);
      accept(std::move(connection));
    });
  }
  ~InProcessEndpoint() override { InProcessEndpoint::stop(); }

  std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline) override {
    auto connection = network_.connect(address, self_, deadline);
    connections_.add(connection);
    return connection;
  }
  const Peer& self() const override { return self_; }
  void stop() override {
    std::unique_ptr<InProcessNetwork::Listener> listener;
    {
      const std::lock_guard lock(mutex_);
      listener.swap(listener_);
    }
    listener.reset();
    connections_.close_all(server_stopped());
  }

 private:
  InProcessNetwork& network_;
  const Peer self_;
  OpenConnections connections_;
  std::mutex mutex_;
  std::unique_ptr<InProcessNetwork::Listener> listener_;  // guarded by mutex_
};

}  // namespace

InProcessNetwork::InProcessNetwork() : state_(std::make_shared<State>()) {}
InProcessNetwork::~InProcessNetwork() = default;

std::unique_ptr<InProcessNetwork::Listener> InProcessNetwork::listen(Peer self,
                                                                     Party::Accept accept) {
  return std::make_unique<Registered>(state_, self, std::move(accept));
}

std::shared_ptr<Connection> InProcessNetwork::try_connect(const std::string& address,
                                                          const Peer& self, Hand hand) {
  const std::lock_guard lock(state_->mutex);
  return state_->connect_locked(address, self, hand);
}

std::shared_ptr<Connection> InProcessNetwork::connect(const std::string& address, const Peer& self,
                                                      Deadline deadline, Hand hand) {
  std::shared_ptr<Connection> connection;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, deadline, [&] {
    connection = state_->connect_locked(address, self, hand);
    return connection != nullptr;
  });
  if (connection == nullptr) {
    raise(Code::Unavailable, "[Connect] nobody of this process listens at {}", address);
  }
  return connection;
}

InProcessNetwork& network_of_process() {
  static auto* const network = new InProcessNetwork;  // never destroyed: threads may outlive main
  return *network;
}

std::unique_ptr<Party> make_in_process_party(InProcessNetwork& network, Peer self,
                                             Party::Accept accept) {
  return std::make_unique<InProcessEndpoint>(network, std::move(self), std::move(accept));
}

}  // namespace cohort::internal
