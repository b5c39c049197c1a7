#include "graph_training/coordinated_threads.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "base/raise.h"
#include "base/thread.h"

namespace cohort {

struct CoordinatedThread::State {
  explicit State(std::string its_name) : name(std::move(its_name)) {}

  void finish() {
    const std::lock_guard lock(mutex);
    running = false;
    ended.notify_all();
  }

  const std::string name;
  internal::Mutex mutex;
  std::condition_variable_any ended;
  bool running = true;  // guarded by mutex
};

CoordinatedThread::CoordinatedThread(std::string name, std::function<void()> body)
    : state_(std::make_shared<State>(std::move(name))) {
  // The thread owns what it needs, so that it may outlast this object.
  thread_ = std::make_unique<internal::Thread>(
      state_->name, [state = state_, body = std::move(body)](const std::stop_token&) mutable {
        const Status status = capture_status(body);
        if (!status.ok()) {
          internal::log_error("[Coordinator] thread '{}' ended with {}", state->name,
                              status.to_string());
        }
        // The body may hold what the waiting threads destroy next, so it goes before they wake.
        body = nullptr;
        state->finish();
      });
}

CoordinatedThread::~CoordinatedThread() {
  // Destroying an internal::Thread joins it. A thread that hangs keeps its object instead.
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

namespace internal {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::vector<std::string> running_names(const CoordinatedThreads& threads) {
  std::vector<std::string> names;
  for (const auto& thread : threads) {
    if (thread->running()) names.push_back(thread->name());
  }
  return names;
}

// Returns when all threads have ended or a stop is requested. The two have condition variables of
// their own, so this function looks at both in turn.
void wait_for_end_or_stop(const CoordinatorState& state, const CoordinatedThreads& threads) {
  constexpr milliseconds kLook{20};
  for (const auto& thread : threads) {
    while (!state.should_stop() && !thread->join_for(kLook)) {
    }
  }
}

void wait_for_end(const CoordinatedThreads& threads, milliseconds grace) {
  const auto deadline = steady_clock::now() + grace;
  for (const auto& thread : threads) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    thread->join_for(std::max(left, milliseconds(0)));
  }
}

}  // namespace
}  // namespace internal

using internal::CoordinatorState;

Coordinator::Coordinator(const CoordinatorOptions& options)
    : state_(std::make_shared<CoordinatorState>(options)) {}

Coordinator::~Coordinator() {
  const Status status = capture_status([&] {
    if (state_->joined() || state_->threads().empty()) return;
    request_stop();
    join({.ignore_live_threads = true});
  });
  if (!status.ok()) internal::log_warning("[Coordinator] ended with {}", status.to_string());
}

std::shared_ptr<CoordinatedThread> Coordinator::start_thread(std::string name,
                                                             std::function<void()> body) {
  auto thread = std::make_shared<CoordinatedThread>(
      std::move(name),
      [state = state_, body = std::move(body)] { state->stop_on_exception(body); });
  state_->register_thread(thread);
  return thread;
}

std::shared_ptr<CoordinatedThread> Coordinator::start_loop(std::string name,
                                                           std::chrono::milliseconds interval,
                                                           std::function<void()> body) {
  return start_thread(std::move(name), [state = state_, interval, body = std::move(body)] {
    do {
      if (!state->should_stop()) body();
    } while (!state->wait_for_stop(interval));
  });
}

void Coordinator::register_thread(std::shared_ptr<CoordinatedThread> thread) {
  state_->register_thread(std::move(thread));
}

void Coordinator::request_stop() { state_->request_stop(nullptr); }
void Coordinator::request_stop(const Status& error) { state_->request_stop(error); }
bool Coordinator::should_stop() const { return state_->should_stop(); }
bool Coordinator::wait_for_stop(std::optional<std::chrono::milliseconds> timeout) const {
  return state_->wait_for_stop(timeout);
}
void Coordinator::clear_stop() { state_->clear_stop(); }
void Coordinator::raise_requested_exception() const { internal::rethrow_if_any(state_->error()); }
void Coordinator::stop_on_exception(const std::function<void()>& body) {
  state_->stop_on_exception(body);
}
bool Coordinator::joined() const { return state_->joined(); }

void Coordinator::join(const JoinOptions& options) {
  for (const auto& thread : options.threads) state_->register_thread(thread);
  const CoordinatedThreads threads = state_->threads();
  internal::wait_for_end_or_stop(*state_, threads);
  internal::wait_for_end(threads, options.stop_grace_period);
  const std::vector<std::string> alive = internal::running_names(threads);
  state_->set_joined();
  internal::rethrow_if_any(state_->error());
  if (alive.empty()) return;
  const std::string message =
      fmt::format("[Coordinator] threads still run {} ms after they were asked to stop: {}",
                  options.stop_grace_period.count(), fmt::join(alive, ", "));
  if (!options.ignore_live_threads) internal::raise(Code::DeadlineExceeded, "{}", message);
  internal::log_warning("{}", message);
}

}  // namespace cohort
