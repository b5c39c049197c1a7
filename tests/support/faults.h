#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "transport/connection.h"

// Connections on which things go wrong, for tests of what is built on them.
namespace cohort::internal {

// How often what goes wrong with a message that is sent; the chances add up to at most 1.
struct FaultChances {
  double drop = 0;  // it never arrives
  double duplicate = 0;
  double delay = 0;  // it and what is sent after it come later
  double cut = 0;    // the connection ends
  std::chrono::microseconds delay_time = std::chrono::milliseconds(2);
};

// Decides by a seed: one thread that sends the same messages sees the same faults. Thread-safe.
class Faults {
 public:
  enum class Fault { None, Drop, Duplicate, Delay, Cut };

  Faults(uint64_t seed, FaultChances chances) : chances_(chances), random_(seed) {}

  Fault next() {
    const std::lock_guard lock(mutex_);
    if (silent_) return Fault::Drop;
    double at = std::uniform_real_distribution<>()(random_);
    const auto happens = [&at](double chance) { return (at -= chance) < 0; };
    if (happens(chances_.drop)) return Fault::Drop;
    if (happens(chances_.duplicate)) return Fault::Duplicate;
    if (happens(chances_.delay)) return Fault::Delay;
    return happens(chances_.cut) ? Fault::Cut : Fault::None;
  }

  // From now on nothing arrives, in either direction, though every connection stays: what a broken
  // network, or a peer that is stopped, looks like.
  void fall_silent(bool silent = true) { silent_ = silent; }
  bool is_silent() const { return silent_; }
  std::chrono::microseconds delay_time() const { return chances_.delay_time; }

 private:
  const FaultChances chances_;
  std::atomic<bool> silent_ = false;
  std::mutex mutex_;
  std::mt19937_64 random_;  // guarded by mutex_
};

class FaultyConnection : public Connection {
 public:
  FaultyConnection(std::shared_ptr<Connection> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  void start(Events events) override {
    events.received = [faults = faults_, inner = std::move(events.received)](Message message) {
      if (!faults->is_silent()) inner(std::move(message));
    };
    inner_->start(std::move(events));
  }
  void send(Message message) override {
    const std::lock_guard lock(mutex_);
    switch (faults_->next()) {
      case Faults::Fault::Drop:
        return;
      case Faults::Fault::Duplicate:
        inner_->send(message);
        break;
      case Faults::Fault::Delay:
        std::this_thread::sleep_for(faults_->delay_time());
        break;
      case Faults::Fault::Cut:
        inner_->close({Code::Unavailable, "[Test] the connection was cut"});
        break;
      case Faults::Fault::None:
        break;
    }
    inner_->send(std::move(message));
  }
  void post(Message message) override { send(std::move(message)); }
  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    return inner_->deliver_until(done, deadline);
  }
  void wake() override { inner_->wake(); }
  void close(const Status& why) override { inner_->close(why); }
  const Peer& peer() const override { return inner_->peer(); }
  std::string_view kind() const override { return inner_->kind(); }
  Traffic traffic() const override { return inner_->traffic(); }

 private:
  const std::shared_ptr<Connection> inner_;
  const std::shared_ptr<Faults> faults_;
  std::mutex mutex_;  // keeps the order of what is delayed
};

// For the connections that others open.
inline Endpoint::Accept with_faults(Endpoint::Accept accept, std::shared_ptr<Faults> faults) {
  return [accept = std::move(accept), faults = std::move(faults)](auto connection) {
    accept(std::make_shared<FaultyConnection>(std::move(connection), faults));
  };
}

// For the connections that an endpoint opens.
class FaultyEndpoint : public Endpoint {
 public:
  FaultyEndpoint(std::unique_ptr<Endpoint> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  std::shared_ptr<Connection> connect(const std::string& address, Deadline deadline,
                                      uint64_t generation = 0,
                                      const std::function<bool()>& is_wanted = {}) override {
    return std::make_shared<FaultyConnection>(
        inner_->connect(address, deadline, generation, is_wanted), faults_);
  }
  const Peer& self() const override { return inner_->self(); }
  void stop() override { inner_->stop(); }

 private:
  const std::unique_ptr<Endpoint> inner_;
  const std::shared_ptr<Faults> faults_;
};

}  // namespace cohort::internal
