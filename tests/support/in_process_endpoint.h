#pragma once

#include "transport/delivery.h"
#include "transport/in_process.h"

namespace cohort::internal {

// An endpoint that reaches the listeners of `network`, which must outlive it. An endpoint without
// `accept` is a client's.
class InProcessEndpoint : public Endpoint {
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

  std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline,
                                      uint64_t generation, const std::function<bool()>&) override {
    Peer self = self_;
    self.generation = generation;
    auto connection = network_.connect(address, self, deadline);
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

inline std::unique_ptr<Endpoint> make_in_process_endpoint(InProcessNetwork& network, Peer self,
                                                          Endpoint::Accept accept = {}) {
  return std::make_unique<InProcessEndpoint>(network, std::move(self), std::move(accept));
}

}  // namespace cohort::internal
