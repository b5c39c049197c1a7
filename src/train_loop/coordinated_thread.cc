#include <condition_variable>

#include "base/log.h"
#include "base/thread.h"
#include "cohort/threads.h"

namespace cohort {

struct CoordinatedThread::State {
  explicit State(std::string its_name) : name(std::move(its_name)) {}

  const std::string name;
  std::mutex mutex;
  std::condition_variable ended;
  bool running = true;  // guarded by mutex
};

namespace {

template <typename State>
void finish(State& state) {
  const std::lock_guard lock(state.mutex);
  state.running = false;
  state.ended.notify_all();
}

}  // namespace

CoordinatedThread::CoordinatedThread(std::string name, std::function<void()> body)
    : state_(std::make_shared<State>(std::move(name))) {
  // What the thread needs it owns, so that it may outlast this object.
  thread_ = std::make_unique<internal::Thread>(
      state_->name, [state = state_, body = std::move(body)](const std::stop_token&) mutable {
        const Status status = capture_status(body);
        if (!status.ok()) {
          internal::log_error("[Coordinator] thread '{}' ended with {}", state->name,
                              status.to_string());
        }
        body = nullptr;  // before anybody who waits goes on: it may hold what they destroy
        finish(*state);
      });
}

CoordinatedThread::~CoordinatedThread() {
  // Destroying a thread's object waits for it; that of one that hangs is left to it.
  if (running()) (void)thread_.release();
}

const std::string& CoordinatedThread::name() const { return state_->name; }

bool CoordinatedThread::running() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running;
}

bool CoordinatedThread::join_for(std::chrono::milliseconds timeout) {
  std::unique_lock lock(state_->mutex);
  return state_->ended.wait_for(lock, timeout, [&] { return !state_->running; });
}

}  // namespace cohort
