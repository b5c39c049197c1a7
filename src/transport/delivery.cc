#include "transport/delivery.h"

#include <condition_variable>
#include <thread>

#include "base/log.h"
#include "base/raise.h"

namespace cohort::internal {

void OpenConnections::add(const std::shared_ptr<Connection>& connection) {
  std::optional<Status> closed;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(connections_, [](const auto& known) { return known.expired(); });
    if (!closed_) connections_.push_back(connection);
    closed = closed_;
  }
  if (closed) connection->close(*closed);
}

void OpenConnections::close_all(const Status& why) {
  std::vector<std::weak_ptr<Connection>> ending;
  {
    const std::lock_guard lock(mutex_);
    ending.swap(connections_);
    if (!closed_) closed_ = why;
  }
  for (const auto& known : ending) {
    if (const auto connection = known.lock()) connection->close(why);
  }
}

namespace {

template <typename Body>
void call(std::string_view event, Body&& body) {
  const Status status = capture_status(body);
  if (!status.ok()) log_error("[Connection] the '{}' event threw {}", event, status.to_string());
}

}  // namespace

struct Delivery::State {
  explicit State(std::shared_ptr<Inbox> from) : inbox(std::move(from)) {}

  const std::shared_ptr<Inbox> inbox;
  TrafficCounter traffic;
  Connection::Events events;  // set by start(); then belongs to the thread whose turn it is

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex:
  bool started = false;
  bool stopped = false;        // the Delivery is gone
  std::optional<Status> over;  // the last event has been delivered
  std::thread::id turn;        // of the thread that reads and delivers, if any
  int foreground = 0;          // threads in deliver_until
  uint64_t delivered = 0;

  bool is_free() const { return started && turn == std::thread::id(); }
  bool is_finished() const { return stopped || over.has_value(); }

  // Called by the thread that has the turn. Returns false when the inbox had nothing.
  bool deliver_next() {
    if (auto message = inbox->take()) {
      traffic.received(size_of(*message));
      call("received", [&] { events.received(std::move(*message)); });
      note_delivered();
      return true;
    }
    auto why = inbox->ended();
    if (!why) return false;
    call("ended", [&] { events.ended(*why); });
    events = {};  // the events often hold the owner of the connection
    const std::lock_guard lock(mutex);
    over = std::move(why);
    return true;
  }

  void note_delivered() {
    const std::lock_guard lock(mutex);
    ++delivered;
    if (foreground > 0) changed.notify_all();
  }

  void take_turn(std::unique_lock<std::mutex>& lock, const std::function<void()>& read) {
    turn = std::this_thread::get_id();
    lock.unlock();
    read();
    lock.lock();
    turn = {};
    changed.notify_all();
  }

  void read_in_foreground(const std::function<bool()>& done, Deadline deadline) {
    const auto finished = [&] {
      const std::lock_guard lock(mutex);
      return is_finished();
    };
    // done() first: another thread may have delivered the message before this thread got the turn.
    while (!done() && !finished()) {
      if (deliver_next()) continue;
      if (std::chrono::steady_clock::now() >= deadline) return;
      inbox->wait(Inbox::Reader::Foreground, deadline);
    }
  }

  void wait_in_foreground(const std::function<bool()>& done, Deadline deadline) {
    std::unique_lock lock(mutex);
    if (foreground++ == 0) inbox->attend(true);
    while (!is_finished() && std::chrono::steady_clock::now() < deadline) {
      if (is_free()) take_turn(lock, [&] { read_in_foreground(done, deadline); });
      // done() may look at what another thread delivers. A delivery while it looks changes the
      // count, so that the wait below ends at once.
      const uint64_t seen = delivered;
      lock.unlock();
      const bool enough = done();
      lock.lock();
      if (enough) break;
      changed.wait_until(lock, deadline,
                         [&] { return is_free() || is_finished() || delivered != seen; });
    }
    if (--foreground == 0) inbox->attend(false);
  }

  void read_in_background() {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        // A thread in the foreground reads for itself, which saves the switch between threads.
        if (is_finished() || foreground > 0) return;
      }
      if (!deliver_next()) return;
    }
  }

  void run_background() {
    std::unique_lock lock(mutex);
    while (!is_finished()) {
      if (is_free() && foreground == 0) take_turn(lock, [this] { read_in_background(); });
      if (is_finished()) return;
      lock.unlock();
      inbox->wait(Inbox::Reader::Background, Deadline::max());
      lock.lock();
    }
  }
};

Delivery::Delivery(std::string thread_name, std::shared_ptr<Inbox> inbox)
    : state_(std::make_shared<State>(std::move(inbox))), thread_name_(std::move(thread_name)) {}

Delivery::~Delivery() {
  const auto self = std::this_thread::get_id();
  {
    std::unique_lock lock(state_->mutex);
    state_->stopped = true;
    state_->changed.notify_all();
    state_->inbox->wake(Inbox::Reader::Foreground);
    state_->inbox->wake(Inbox::Reader::Background);
    state_->changed.wait(lock,
                         [&] { return state_->turn == std::thread::id() || state_->turn == self; });
  }
  if (background_.is_this_thread()) background_.detach();
}

void Delivery::start(Connection::Events events) {
  const std::shared_ptr<State> state = state_;
  // With the mutex, which the thread takes first: an event may destroy this Delivery and its
  // Thread.
  const std::lock_guard lock(state->mutex);
  if (state->started) raise(Code::FailedPrecondition, "[Connection] start was called twice");
  if (!thread_name_.empty()) {
    background_ =
        Thread(thread_name_, [state](const std::stop_token&) { state->run_background(); });
  }
  state->events = std::move(events);
  state->started = true;
  state->changed.notify_all();
}

std::function<void()> Delivery::deliver_pending() const {
  return [state = state_] {
    std::unique_lock lock(state->mutex);
    if (state->is_finished() || !state->is_free() || state->foreground > 0) return;
    state->take_turn(lock, [&] { state->read_in_background(); });
  };
}

void Delivery::wake() {
  const std::lock_guard lock(state_->mutex);
  if (state_->foreground == 0) return;
  ++state_->delivered;  // for threads that wait for their turn
  state_->changed.notify_all();
  state_->inbox->wake(Inbox::Reader::Foreground);
}

void Delivery::sent(size_t bytes) { state_->traffic.sent(bytes); }
Traffic Delivery::traffic() const { return state_->traffic.read(); }

bool Delivery::is_delivering_here() const {
  const std::lock_guard lock(state_->mutex);
  return state_->turn == std::this_thread::get_id();
}

bool Delivery::deliver_until(const std::function<bool()>& done, Deadline deadline) {
  check_no_mutex_held("reads");
  if (is_delivering_here()) {
    raise(Code::FailedPrecondition,
          "[Connection] deliver_until was called inside an event of the same connection, and "
          "would wait for itself; wait on another thread");
  }
  if (done()) return true;
  const std::shared_ptr<State> state = state_;  // an event may end this Delivery
  state->wait_in_foreground(done, deadline);
  if (done()) return true;
  const std::lock_guard lock(state->mutex);
  if (state->over) throw_if_error(*state->over);
  return false;
}

}  // namespace cohort::internal
