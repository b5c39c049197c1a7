#include "rpc/heartbeat.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "rpc/grpc_settings.h"
#include "rpc/status_call.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

// A connection may break once by accident.
constexpr int kFailuresToGiveUp = 2;

}  // namespace

class Heartbeat::Impl {
 public:
  explicit Impl(HeartbeatOptions options)
      : options_(std::move(options)),
        thread_("heartbeat", [this](const std::stop_token& stop) { run(stop); }) {}

  void watch(const Peer& peer, Lost lost) {
    check_target(peer.address, options_.credentials);
    forget(peer);
    const std::lock_guard lock(mutex_);
    watched_[peer.address] = std::make_shared<Watched>(Watched{peer, std::move(lost)});
    changed_.notify_all();
  }

  void forget(const Peer& peer) {
    Lock lock(mutex_);
    const auto found = watched_.find(peer.address);
    if (found == watched_.end()) return;
    const Handle handle = found->second;
    handle->forgotten = true;
    watched_.erase(found);
    // The caller may destroy what the callback uses when this returns. The callback itself may call
    // this, and would wait for its own end.
    if (!thread_.is_this_thread()) {
      changed_.wait(lock, [&] { return calling_back_ != handle.get(); });
    }
  }

 private:
  using Lock = std::unique_lock<Mutex>;
  // One peer. Belongs to the thread, except for `forgotten`.
  struct Watched {
    Peer peer;
    Lost lost;
    std::shared_ptr<grpc::Channel> channel = {};
    std::unique_ptr<StatusRequestCall> call = {};
    Deadline last_answer = steady_clock::now();
    Deadline next_question = steady_clock::now();
    int failures = 0;
    bool forgotten = false;  // guarded by mutex_
  };
  using Handle = std::shared_ptr<Watched>;

  void run(const std::stop_token& stop) {
    quiet_grpc();
    Lock lock(mutex_);
    while (!stop.stop_requested()) {
      const Deadline next = ask_due_peers(lock);
      if (asked_.empty()) {  // nothing will end at the queue
        const size_t known = watched_.size();
        changed_.wait_until(lock, stop, std::min(next, steady_clock::now() + std::chrono::hours(1)),
                            [&] { return watched_.size() != known; });
        lock.unlock();
        forgive_own_pause();
        lock.lock();
        continue;
      }
      lock.unlock();
      void* tag = nullptr;
      bool ok = false;
      // New peers and the end of the heartbeat are noticed within an interval.
      const Deadline until = std::min(next, steady_clock::now() + options_.interval / 4);
      const auto event = queue_.AsyncNext(&tag, &ok, to_grpc_time(until));
      forgive_own_pause();
      if (event == grpc::CompletionQueue::GOT_EVENT) {
        const std::unique_ptr<Handle> handle(static_cast<Handle*>(tag));
        asked_.erase(*handle);
        on_answer(**handle);
      }
      lock.lock();
    }
    lock.unlock();
    drain();
  }

  void ask(const Handle& watched) {
    const auto now = steady_clock::now();
    if (!watched->channel)
      watched->channel = make_channel(watched->peer.address, options_.credentials);
    watched->next_question = now + options_.interval;
    // The tag keeps the peer alive. The call ends when the peer has been silent for the limit, so
    // that one unanswered question is enough to give a frozen peer up.
    watched->call = std::make_unique<StatusRequestCall>(
        StatusRequestCall::Target{.channel = watched->channel,
                                  .address = watched->peer.address,
                                  .credentials = options_.credentials},
        &queue_, watched->last_answer + options_.limit, new Handle(watched));
    asked_.insert(watched);
  }

  void on_answer(Watched& watched) {
    TaskStatus answer;
    const Status problem = capture_status([&] { answer = watched.call->answer(); });
    watched.call.reset();
    if (!problem.ok()) return on_failure(watched, problem);
    watched.failures = 0;
    watched.last_answer = steady_clock::now();
    if (answer.peer.incarnation == watched.peer.incarnation &&
        answer.peer.name == watched.peer.name) {
      return;
    }
    give_up(watched, {Code::Aborted,
                      fmt::format("[Heartbeat] {} at {} has been restarted: {} answers there now",
                                  watched.peer.name, watched.peer.address,
                                  answer.peer.name == watched.peer.name ? "another incarnation"
                                                                        : answer.peer.name)});
  }

  void on_failure(Watched& watched, const Status& why) {
    watched.channel = nullptr;                  // the next question makes a new connection
    if (why.code == Code::ResourceExhausted) {  // this process could not ask
      watched.last_answer = steady_clock::now();
      return;
    }
    ++watched.failures;
    const std::chrono::duration<double> silence = steady_clock::now() - watched.last_answer;
    if (silence >= options_.limit) {
      give_up(watched, {Code::Unavailable,
                        fmt::format("[Heartbeat] {} at {} has not answered for {:.1f} s: it is "
                                    "frozen or cannot be reached",
                                    watched.peer.name, watched.peer.address, silence.count())});
    } else if (why.code != Code::Unavailable && why.code != Code::DeadlineExceeded) {
      give_up(watched, why);
    } else if (watched.failures >= kFailuresToGiveUp) {
      Status status{Code::Unavailable, fmt::format("[Heartbeat] {} at {} is gone",
                                                   watched.peer.name, watched.peer.address)};
      status.cause = std::make_shared<const Status>(why);
      give_up(watched, status);
    } else {
      watched.next_question = steady_clock::now() + options_.interval / 4;
    }
  }

  void give_up(Watched& watched, const Status& why) {
    {
      const std::lock_guard lock(mutex_);
      if (watched.forgotten) return;
      calling_back_ = &watched;
      watched_.erase(watched.peer.address);
    }
    // Without the mutex, because the callback may watch or forget peers.
    const Status problem = capture_status([&] { watched.lost(why); });
    if (!problem.ok()) log_error("[Heartbeat] the callback threw {}", problem.to_string());
    const std::lock_guard lock(mutex_);
    calling_back_ = nullptr;
    changed_.notify_all();
  }

  void drain() {
    for (const Handle& watched : asked_) watched->call->cancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) delete static_cast<Handle*>(tag);
  }

  // Peers are not blamed for a time in which this process itself was frozen or suspended.
  void forgive_own_pause() {
    const Lock lock(mutex_);
    const auto now = steady_clock::now();
    const auto pause = now - std::exchange(last_look_, now);
    if (pause < std::max(2 * options_.interval, options_.limit / 2)) return;
    for (const auto& [address, watched] : watched_) watched->last_answer = now;
  }

  // Asks the peers that are due. Returns when the next peer is due.
  Deadline ask_due_peers(Lock&) {
    Deadline next = Deadline::max();
    for (const auto& [address, watched] : watched_) {
      if (watched->call) continue;
      if (watched->next_question <= steady_clock::now()) {
        ask(watched);
      } else {
        next = std::min(next, watched->next_question);
      }
    }
    return next;
  }

  const HeartbeatOptions options_;
  grpc::CompletionQueue queue_;
  std::set<Handle> asked_;  // peers that have not answered yet; belongs to the thread, as the next
  Deadline last_look_ = steady_clock::now();

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Handle> watched_;  // by address; guarded by mutex_
  Watched* calling_back_ = nullptr;        // guarded by mutex_

  Thread thread_;
};

Heartbeat::Heartbeat(HeartbeatOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
Heartbeat::~Heartbeat() = default;

void Heartbeat::watch(const Peer& peer, Lost lost) { impl_->watch(peer, std::move(lost)); }
void Heartbeat::forget(const Peer& peer) { impl_->forget(peer); }

}  // namespace cohort::internal
