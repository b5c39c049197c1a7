#include "cohort/threads.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <map>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/thread.h"
#include "base/waiting.h"
#include "graph/graph_impl.h"

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
  return state_->ended.wait_until(lock, internal::deadline_after(timeout),
                                  [&] { return !state_->running; });
}

namespace internal {

// The state that a Coordinator shares with its threads, which may outlast the Coordinator.
// Thread-safe.
class CoordinatorState {
 public:
  explicit CoordinatorState(const CoordinatorOptions& options) : options_(options) {}

  // Requests a stop, without an error if `error` is null.
  void request_stop(const std::exception_ptr& error) {
    const bool failed = !is_clean(status_of(error).code);
    const std::lock_guard lock(mutex_);
    if (joined_ && failed) std::rethrow_exception(error);
    if (!stop_ && failed) error_ = error;
    stop_ = true;
    stopped_.notify_all();
  }

  void request_stop(const Status& error) {
    request_stop(capture_exception([&] { throw_if_error(error); }));
  }
  bool should_stop() const {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  bool wait_for_stop(std::optional<std::chrono::milliseconds> timeout) const {
    std::unique_lock lock(mutex_);
    const auto stopped = [&] { return stop_; };
    if (timeout) return stopped_.wait_until(lock, deadline_after(*timeout), stopped);
    stopped_.wait(lock, stopped);
    return true;
  }

  void clear_stop() {
    const std::lock_guard lock(mutex_);
    stop_ = false;
    joined_ = false;
    error_ = nullptr;
  }

  // The first reported error; null if no error was reported.
  std::exception_ptr error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  // Runs `body` and reports its error.
  void stop_on_exception(const std::function<void()>& body) {
    const std::exception_ptr thrown = capture_exception(body);
    if (thrown != nullptr) request_stop(thrown);
  }

  void register_thread(std::shared_ptr<CoordinatedThread> thread) {
    if (!thread) raise(Code::InvalidArgument, "[Coordinator] the thread to wait for is null");
    CoordinatedThreads ended;  // destroyed without the mutex, because that joins
    const std::lock_guard lock(mutex_);
    const auto first_ended = std::stable_partition(
        threads_.begin(), threads_.end(), [](const auto& known) { return known->running(); });
    std::move(first_ended, threads_.end(), std::back_inserter(ended));
    threads_.erase(first_ended, threads_.end());
    threads_.push_back(std::move(thread));
  }

  CoordinatedThreads threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

  // Unregisters the threads. From now on request_stop() throws an error at once.
  void set_joined() {
    CoordinatedThreads gone;  // destroyed without the mutex
    const std::lock_guard lock(mutex_);
    gone.swap(threads_);
    joined_ = true;
  }

  bool joined() const {
    const std::lock_guard lock(mutex_);
    return joined_;
  }

 private:
  bool is_clean(Code code) const {
    const auto& clean = options_.clean_stop_codes;
    return code == Code::Ok || std::ranges::find(clean, code) != clean.end();
  }

  const CoordinatorOptions options_;
  mutable Mutex mutex_;
  mutable std::condition_variable_any stopped_;
  bool stop_ = false;  // guarded by mutex_, as all below
  bool joined_ = false;
  std::exception_ptr error_;
  CoordinatedThreads threads_;
};

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
  const auto deadline = internal::deadline_after(grace);
  for (const auto& thread : threads) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    thread->join_for(std::max(left, milliseconds(0)));
  }
}

std::optional<Callable> callable(Session& session, const Tensor& op) {
  if (!op.defined()) return std::nullopt;
  return session.make_callable({}, {op});
}

// The queue may be closed already, or the session.
void run_ignoring_errors(const Callable& op) {
  const Status status = capture_status([&] { op({}); });
  if (!status.ok()) log_debug("[QueueRunner] cannot close the queue: {}", status.to_string());
}

// Runs the op over and over. Returns what ended the loop: OK when the coordinator stopped.
Status run_until_stopped(const Callable& op, const CoordinatorState* coordinator) {
  return capture_status([&] {
    while (coordinator == nullptr || !coordinator->should_stop()) op({});
  });
}

// The queue runners of a graph.
struct QueueRunners {
  Mutex mutex;
  std::vector<QueueRunner> all;  // guarded by mutex
};

QueueRunners& runners_of(const Graph& graph) {
  return GraphAccess::impl(graph)->companion<QueueRunners>();
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
  if (!status.ok()) {
    internal::log_warning("[Coordinator] the threads ended with {}", status.to_string());
  }
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

struct QueueRunner::State {
  std::vector<Tensor> ops;
  QueueRunnerOptions options;

  internal::Mutex mutex = {};
  std::map<const Session*, int> running = {};  // threads by session; guarded by mutex
  std::vector<Status> errors = {};             // guarded by mutex

  bool is_closed(Code code) const {
    const auto& codes = options.queue_closed_codes;
    return std::ranges::find(codes, code) != codes.end();
  }

  // Counts the threads of a session. False when the session has threads already.
  bool begin(const Session* session) {
    const std::lock_guard lock(mutex);
    int& count = running[session];
    if (count > 0) return false;
    count = static_cast<int>(ops.size());
    return true;
  }
  // Returns whether this was the last thread of the session.
  bool end_one(const Session* session) {
    const std::lock_guard lock(mutex);
    if (--running[session] > 0) return false;
    running.erase(session);
    return true;
  }
  bool runs(const Session* session) {
    const std::lock_guard lock(mutex);
    return running.contains(session);
  }

  // What a thread does when it has ended with `status`.
  void finish(const Session* session, const Status& status, const std::optional<Callable>& close,
              CoordinatorState* coordinator) {
    const bool closed = is_closed(status.code);
    const bool last = end_one(session);
    if (closed && last && close) internal::run_ignoring_errors(*close);
    if (closed || status.ok()) return;
    if (coordinator != nullptr) return coordinator->request_stop(status);
    const std::lock_guard lock(mutex);
    errors.push_back(status);
  }

  // An op may begin to wait right after it was cancelled, so this cancels until all have ended.
  void cancel_when_stopped(const Session* session, const Callable& cancel,
                           const CoordinatorState& coordinator) {
    while (!coordinator.wait_for_stop(std::chrono::milliseconds(100))) {
      if (!runs(session)) return;
    }
    const auto has_ended = [&] {
      if (!runs(session)) return true;
      internal::run_ignoring_errors(cancel);
      return false;
    };
    (void)internal::poll_until(std::chrono::steady_clock::time_point::max(), has_ended,
                               internal::PollPolicy::every(std::chrono::milliseconds(10)));
  }
};

QueueRunner::QueueRunner(FifoQueue& queue, const std::vector<Tensor>& enqueue_ops)
    : QueueRunner(enqueue_ops, {.name = queue.name(),
                                .close_op = queue.close(),
                                .cancel_op = queue.close({.cancel_pending_enqueues = true})}) {}

QueueRunner::QueueRunner(const std::vector<Tensor>& ops, const QueueRunnerOptions& options)
    : state_(new State{.ops = ops, .options = options}) {
  if (ops.empty()) {
    internal::raise(Code::InvalidArgument, "[QueueRunner] '{}' has no ops to run", options.name);
  }
}

const std::string& QueueRunner::name() const { return state_->options.name; }

std::vector<Status> QueueRunner::exceptions_raised() const {
  const std::lock_guard lock(state_->mutex);
  return state_->errors;
}

CoordinatedThreads QueueRunner::create_threads(Session& session, Coordinator& coordinator) const {
  CoordinatedThreads threads = start(session, coordinator.state_);
  for (const auto& thread : threads) coordinator.register_thread(thread);
  return threads;
}

CoordinatedThreads QueueRunner::create_threads(Session& session) const {
  return start(session, nullptr);
}

CoordinatedThreads QueueRunner::start(Session& session,
                                      std::shared_ptr<CoordinatorState> coordinator) const {
  // Callables keep the session alive, so threads may outlast the caller's session object.
  std::vector<Callable> ops;
  for (const Tensor& op : state_->ops) ops.push_back(session.make_callable({}, {op}));
  const auto close = internal::callable(session, state_->options.close_op);
  const auto cancel = internal::callable(session, state_->options.cancel_op);
  if (!state_->begin(&session)) return {};
  CoordinatedThreads threads;
  for (size_t i = 0; i < ops.size(); ++i) {
    threads.push_back(std::make_shared<CoordinatedThread>(
        fmt::format("{}/{}", name(), i),
        [state = state_, op = ops[i], close, coordinator, key = &session] {
          state->finish(key, internal::run_until_stopped(op, coordinator.get()), close,
                        coordinator.get());
        }));
  }
  if (coordinator && cancel) {
    threads.push_back(std::make_shared<CoordinatedThread>(
        name() + "/cancel", [state = state_, cancel, coordinator, key = &session] {
          state->cancel_when_stopped(key, *cancel, *coordinator);
        }));
  }
  return threads;
}

void add_queue_runner(const QueueRunner& runner) {
  auto& runners = internal::runners_of(get_default_graph());
  const std::lock_guard lock(runners.mutex);
  runners.all.push_back(runner);
}

std::vector<QueueRunner> queue_runners(const Graph& graph) {
  auto& runners = internal::runners_of(graph);
  const std::lock_guard lock(runners.mutex);
  return runners.all;
}

std::vector<QueueRunner> queue_runners() { return queue_runners(get_default_graph()); }

CoordinatedThreads start_queue_runners(const std::vector<QueueRunner>& runners, Session& session,
                                       Coordinator& coordinator) {
  CoordinatedThreads threads;
  for (const QueueRunner& runner : runners) {
    const CoordinatedThreads started = runner.create_threads(session, coordinator);
    threads.insert(threads.end(), started.begin(), started.end());
  }
  return threads;
}

CoordinatedThreads start_queue_runners(const Graph& graph, Session& session,
                                       Coordinator& coordinator) {
  return start_queue_runners(queue_runners(graph), session, coordinator);
}

}  // namespace cohort
