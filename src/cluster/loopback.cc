#include "cluster/loopback.h"

#include <condition_variable>
#include <mutex>

namespace cohort::internal {
namespace {

class Loopback : public Connection {
 public:
  explicit Loopback(Peer peer) : peer_(std::move(peer)) {}
  void set_other(const std::shared_ptr<Loopback>& other) { other_ = other; }

  void start(Events events) override {
    const std::lock_guard lock(mutex_);
    events_ = std::make_shared<const Events>(std::move(events));
  }

  void send(Message message) override {
    const std::shared_ptr<Loopback> other = other_.lock();
    const std::shared_ptr<const Events> events = other ? other->events() : nullptr;
    if (!events) throw Error(Code::Cancelled, "[Connection] the server was stopped");
    events->received(std::move(message));
    other->note_delivery();
  }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    while (true) {
      const uint64_t seen = deliveries_;
      lock.unlock();
      if (done()) return true;
      lock.lock();
      const auto news = [&] { return deliveries_ != seen || !events_; };
      if (!delivered_.wait_until(lock, deadline, news) || !events_) break;
    }
    lock.unlock();
    return done();
  }

  void close(const Status& why) override {
    const std::shared_ptr<Loopback> other = other_.lock();
    end(why);
    if (other) other->end(why);
  }

  const Peer& peer() const override { return peer_; }
  std::string_view kind() const override { return "loopback"; }
  Traffic traffic() const override { return {}; }

 private:
  std::shared_ptr<const Events> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }

  void note_delivery() {
    const std::lock_guard lock(mutex_);
    ++deliveries_;
    delivered_.notify_all();
  }

  void end(const Status& why) {
    std::shared_ptr<const Events> events;
    {
      const std::lock_guard lock(mutex_);
      events.swap(events_);
      delivered_.notify_all();
    }
    if (events) events->ended(why);
  }

  const Peer peer_;
  std::weak_ptr<Loopback> other_;
  std::mutex mutex_;
  std::condition_variable delivered_;
  std::shared_ptr<const Events> events_;  // guarded by mutex_, as all below
  uint64_t deliveries_ = 0;
};

}  // namespace

std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> connect_to_self(
    const Peer& self) {
  const auto first = std::make_shared<Loopback>(self);
  const auto second = std::make_shared<Loopback>(self);
  first->set_other(second);
  second->set_other(first);
  return {first, second};
}

}  // namespace cohort::internal
