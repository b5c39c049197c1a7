#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/mutex.h"
#include "base/raise.h"
#include "base/waiting.h"
#include "cohort/threads.h"
#include "graph/graph_impl.h"
#include "graph_training/coordinated_threads.h"

namespace cohort {

using internal::CoordinatorState;

namespace internal {
namespace {

std::optional<Callable> callable(Session& session, const Tensor& op) {
  if (!op.defined()) return std::nullopt;
  return session.make_callable({}, {op});
}

// The queue may be closed already, or the session.
void run_ignoring_errors(const Callable& op) {
  const Status status = capture_status([&] { op({}); });
  if (!status.ok()) log_debug("[QueueRunner] closing gave {}", status.to_string());
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
