#include "transport/direct_connection.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "transport/delivery.h"

namespace cohort::internal {
namespace {

class DirectEnd : public DirectConnection {
 public:
  DirectEnd(Peer self, Peer peer) : self_(std::move(self)), peer_(std::move(peer)) {}
  ~DirectEnd() override { DirectEnd::close(dropped()); }
  void set_other(const std::shared_ptr<DirectEnd>& other) { other_ = other; }

  void start(Events events) override {
    Lock lock(mutex_);
    events_ = std::make_shared<const Events>(std::move(events));
    ++inside_;  // the end waits until the early messages are delivered
    while (!early_.empty()) {
      const std::vector<Message> early = std::exchange(early_, {});
      for (const Message& message : early) deliver(lock, message);
    }
    started_ = true;
    leave(lock);
  }

  void send(Message message) override {
    check_no_mutex_held("sends");
    {
      const std::lock_guard lock(mutex_);
      if (end_) throw_if_error(*end_);
    }
    const std::shared_ptr<DirectEnd> other = other_.lock();
    if (!other) throw_if_error(closed_by_peer(dropped(), peer_));
    traffic_.sent(size_of(message));
    other->take(std::move(message));
  }

  void post(Message message) override { send(std::move(message)); }

  bool deliver_until(const std::function<bool()>& done, Deadline deadline) override {
    check_no_mutex_held("reads");
    while (true) {
      Lock lock(mutex_);
      // This precedes done(): news that come meanwhile end the wait below at once.
      const uint64_t seen = news_;
      const std::optional<Status> over = end_delivered_ ? end_ : std::nullopt;
      lock.unlock();
      if (done()) return true;
      if (over) throw_if_error(*over);
      if (over || std::chrono::steady_clock::now() >= deadline) return false;
      if (read_for_other(done, deadline)) continue;
      lock.lock();
      changed_.wait_until(lock, deadline, [&] { return news_ != seen; });
    }
  }

  void wake() override {
    Lock lock(mutex_);
    wake_waiting(lock);
  }

  void close(const Status& why) override {
    const std::shared_ptr<DirectEnd> other = other_.lock();
    if (other) other->end(closed_by_peer(why, self_), false);
    end(closed_here(why, peer_), true);
  }

  void set_pending_waits(PendingWaits waits) override {
    const std::lock_guard lock(mutex_);
    if (!end_) pending_waits_ = std::make_shared<const PendingWaits>(std::move(waits));
  }

  const Peer& peer() const override { return peer_; }
  std::string_view kind() const override { return "in-process"; }
  Traffic traffic() const override { return traffic_.read(); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Reading {
    std::thread::id by;
    std::shared_ptr<Connection> on;
  };

  void take(Message message) {
    Lock lock(mutex_);
    if (end_) return;
    if (!started_) {
      early_.push_back(std::move(message));
      return;
    }
    ++inside_;
    deliver(lock, std::move(message));
    leave(lock);
  }

  void deliver(Lock& lock, Message message) {
    const std::shared_ptr<const Events> events = events_;
    lock.unlock();
    traffic_.received(size_of(message));
    const Status status = capture_status([&] { events->received(std::move(message)); });
    if (!status.ok()) log_error("[Connection] the 'received' event threw {}", status.to_string());
    lock.lock();
    wake_waiting(lock);
  }

  // The last thread to leave delivers the end.
  void leave(Lock& lock) {
    --inside_;
    if (inside_ > 0 || !end_ || !started_ || end_delivered_) return;
    end_delivered_ = true;
    const std::shared_ptr<const Events> events = std::exchange(events_, nullptr);
    pending_waits_ = nullptr;
    const Status why = *end_;
    lock.unlock();
    events->ended(why);
    lock.lock();
    wake_waiting(lock);
  }

  void end(Status why, bool discard) {
    Lock lock(mutex_);
    if (end_) return;
    end_ = std::move(why);
    if (discard) early_.clear();
    ++inside_;
    leave(lock);
  }

  std::optional<PendingWait> next_wait() {
    Lock lock(mutex_);
    const std::shared_ptr<const PendingWaits> waits = pending_waits_;
    if (!waits || end_) return std::nullopt;
    ++inside_;
    lock.unlock();
    std::optional<PendingWait> wait = (*waits)();
    lock.lock();
    leave(lock);
    return wait;
  }

  // Reads what the other side waits for. False when the other side waits for nothing.
  bool read_for_other(const std::function<bool()>& done, Deadline deadline) {
    const std::shared_ptr<DirectEnd> other = other_.lock();
    const std::optional<PendingWait> wait = other ? other->next_wait() : std::nullopt;
    if (!wait) return false;
    {
      const std::lock_guard lock(mutex_);
      readings_.push_back({std::this_thread::get_id(), wait->on});
    }
    // The other side learns itself what ended that connection, and then has another answer.
    const Status status = capture_status(
        [&] { wait->on->deliver_until([&] { return done() || !wait->is_open(); }, deadline); });
    stop_reading();
    return status.ok();
  }

  void stop_reading() {
    const std::lock_guard lock(mutex_);
    std::erase_if(readings_,
                  [](const Reading& reading) { return reading.by == std::this_thread::get_id(); });
  }

  // Threads that read for the other side sleep on other connections. This thread is awake anyway.
  void wake_waiting(Lock& lock) {
    ++news_;
    changed_.notify_all();
    std::vector<std::shared_ptr<Connection>> sleeping;
    for (const Reading& reading : readings_) {
      if (reading.by != std::this_thread::get_id()) sleeping.push_back(reading.on);
    }
    if (sleeping.empty()) return;
    lock.unlock();
    for (const auto& connection : sleeping) connection->wake();
    lock.lock();
  }

  const Peer self_;
  const Peer peer_;
  std::weak_ptr<DirectEnd> other_;
  TrafficCounter traffic_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::shared_ptr<const Events> events_;  // null before start() and after the end was delivered
  std::shared_ptr<const PendingWaits> pending_waits_;
  bool started_ = false;
  std::vector<Message> early_;  // arrived before start()
  size_t inside_ = 0;           // threads in events or pending waits of this side
  std::optional<Status> end_;
  bool end_delivered_ = false;
  uint64_t news_ = 0;  // counts deliveries and wakes
  std::vector<Reading> readings_;
};

}  // namespace

std::pair<std::shared_ptr<DirectConnection>, std::shared_ptr<DirectConnection>> connect_directly(
    const Peer& first, const Peer& second) {
  const auto one = std::make_shared<DirectEnd>(first, second);
  const auto other = std::make_shared<DirectEnd>(second, first);
  one->set_other(other);
  other->set_other(one);
  return {one, other};
}

}  // namespace cohort::internal
