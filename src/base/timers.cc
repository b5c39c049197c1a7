#include "base/timers.h"

#include <condition_variable>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"
#include "cohort/error.h"

namespace cohort::internal {
namespace {

// The thread, and the calls of all Timers of this process.
class TimerThread {
 public:
  Timers::Key add(const Timers* owner, Timers::Time time, std::function<void()> call) {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = Thread("cohort-timers", [this](const auto&) { serve(); });
    const Timers::Key key{time, next_++};
    const bool first = calls_.empty() || key < calls_.begin()->first;
    calls_.emplace(key, Call{owner, std::move(call)});
    if (first) changed_.notify_all();
    return key;
  }

  void drop(const Timers::Key& key) {
    Calls::node_type dropped;  // destroyed after the lock: the call may hold the last reference
    const std::lock_guard lock(mutex_);
    dropped = calls_.extract(key);
  }

  void drop_all_of(const Timers* owner) {
    std::vector<Calls::node_type> dropped;  // destroyed after the lock
    std::unique_lock lock(mutex_);
    const auto drop = [&] {
      for (auto at = calls_.begin(); at != calls_.end();) {
        const auto here = at++;
        if (here->second.owner == owner) dropped.push_back(calls_.extract(here));
      }
    };
    drop();
    if (thread_.is_this_thread()) return;
    ended_.wait(lock, [&] { return running_ != owner; });
    drop();  // calls that the one that ran has added
  }

 private:
  struct Call {
    const Timers* owner;
    std::function<void()> function;
  };
  using Calls = std::map<Timers::Key, Call>;

  [[noreturn]] void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (calls_.empty()) {
        changed_.wait(lock);
      } else if (const Timers::Time due = calls_.begin()->first.first;
                 std::chrono::steady_clock::now() < due) {
        changed_.wait_until(lock, due);
      } else {
        run_first(lock);
      }
    }
  }

  void run_first(std::unique_lock<Mutex>& lock) {
    Call call = std::move(calls_.begin()->second);
    calls_.erase(calls_.begin());
    running_ = call.owner;
    lock.unlock();
    (void)capture_status(call.function);
    call.function = nullptr;  // without the lock: the call may hold the last reference
    lock.lock();
    running_ = nullptr;
    ended_.notify_all();
  }

  Mutex mutex_;
  std::condition_variable_any changed_, ended_;
  Calls calls_;                      // guarded by mutex_, as all below
  const Timers* running_ = nullptr;  // whose call runs
  uint64_t next_ = 0;
  Thread thread_;  // made with the first call
};

// Never destroyed: Timers may outlive other static objects.
TimerThread& timer_thread() {
  static TimerThread& only = *new TimerThread;
  return only;
}

}  // namespace

Timers::~Timers() {
  if (used_) timer_thread().drop_all_of(this);
}

Timers::Key Timers::at(Time time, std::function<void()> call) {
  used_ = true;
  return timer_thread().add(this, time, std::move(call));
}

void Timers::forget(const Key& key) { timer_thread().drop(key); }

}  // namespace cohort::internal
