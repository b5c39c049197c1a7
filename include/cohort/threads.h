#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cohort/error.h"
#include "cohort/queue.h"
#include "cohort/session.h"

// Helper threads of a training program: one place that stops them all and hears of their errors,
// and threads that fill queues.

namespace cohort {

namespace internal {
class CoordinatorState;
class Thread;
}  // namespace internal

// A thread that a Coordinator started. Copies of the pointer share it.
class CoordinatedThread {
 public:
  CoordinatedThread(std::string name, std::function<void()> body);
  // Lets a thread that still runs go on by itself.
  ~CoordinatedThread();
  CoordinatedThread(const CoordinatedThread&) = delete;
  CoordinatedThread& operator=(const CoordinatedThread&) = delete;

  const std::string& name() const;
  bool running() const;
  // Waits for the end of the thread, at most for that long; says whether it ended.
  bool join_for(std::chrono::milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::unique_ptr<internal::Thread> thread_;
};
using CoordinatedThreads = std::vector<std::shared_ptr<CoordinatedThread>>;

struct CoordinatorOptions {
  // Errors with these codes are reasons to stop, not failures: the input is at its end.
  std::vector<Code> clean_stop_codes = {Code::OutOfRange};
};

struct JoinOptions {
  CoordinatedThreads threads = {};  // besides those that the coordinator started
  std::chrono::milliseconds stop_grace_period{120'000};
  // Threads that outlast the grace period are a warning instead of an error.
  bool ignore_live_threads = false;
};

// A stop flag that several threads share, and the first error that one of them reported.
//
// Thread-safe. The destructor asks its threads to stop and waits for them, for the default grace
// period at most.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options = {});
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Runs `body` in a thread that join() waits for. What it throws is reported by request_stop().
  std::shared_ptr<CoordinatedThread> start_thread(std::string name, std::function<void()> body);
  // Runs `body` at once and then again after each `interval`, until request_stop().
  std::shared_ptr<CoordinatedThread> start_loop(std::string name,
                                                std::chrono::milliseconds interval,
                                                std::function<void()> body);
  // Makes join() wait for a thread that other code started. InvalidArgument for a null one.
  void register_thread(std::shared_ptr<CoordinatedThread> thread);

  void request_stop();
  // The same because of an error: the first one reported is thrown by join(), later ones are
  // dropped, those with a clean stop code are none. After join() is through, an error is thrown at
  // once: nothing else would report it.
  void request_stop(const Status& error);
  bool should_stop() const;
  // Returns after request_stop(), or after the timeout; says whether it was the former.
  bool wait_for_stop(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;
  // Forgets the stop and the error: the coordinator is as new. Threads stay registered.
  void clear_stop();

  // Throws the error that was reported, when there is one.
  void raise_requested_exception() const;
  // Runs `body`; what it throws is reported by request_stop() and goes no further.
  void stop_on_exception(const std::function<void()>& body);

  // Waits until all threads have ended, or request_stop() was called and the grace period is over.
  // Then throws the error that was reported, else DeadlineExceeded naming the threads that still
  // run.
  void join(const JoinOptions& options = {});
  bool joined() const;

 private:
  friend class QueueRunner;
  std::shared_ptr<internal::CoordinatorState> state_;
};

struct QueueRunnerOptions {
  std::string name = "queue_runner";
  // Run when the last thread ended because the queue, or what feeds it, is closed.
  Tensor close_op = {};
  // Run when the coordinator stops, and again until the threads have ended: must end what they wait
  // for.
  Tensor cancel_op = {};
  // Errors with these codes mean that the op has nothing more to put in.
  std::vector<Code> queue_closed_codes = {Code::OutOfRange};
};

// Threads that keep a queue filled: one per enqueue op, each running its op over and over until the
// coordinator stops or the op has nothing more to put in. When the last thread of a session ends
// for the latter reason, the queue is closed. A handle: copies are the same runner. Thread-safe.
class QueueRunner {
 public:
  // Adds the nodes that close the queue to the graph being built. No ops are InvalidArgument.
  QueueRunner(FifoQueue& queue, const std::vector<Tensor>& enqueue_ops);
  // Any ops that are to be run over and over.
  QueueRunner(const std::vector<Tensor>& ops, const QueueRunnerOptions& options);

  const std::string& name() const;

  // Starts the threads; the coordinator hears of their errors and waits for them. A further thread
  // cancels what they wait for when it stops. While threads of this runner for this session run, no
  // new ones are made and the result is empty.
  CoordinatedThreads create_threads(Session& session, Coordinator& coordinator) const;
  // Without a coordinator: they end when the queue or the session is closed.
  CoordinatedThreads create_threads(Session& session) const;
  // What threads without a coordinator ended with.
  std::vector<Status> exceptions_raised() const;

 private:
  struct State;
  CoordinatedThreads start(Session& session,
                           std::shared_ptr<internal::CoordinatorState> coordinator) const;
  std::shared_ptr<State> state_;
};

// The runners of the graph being built: those that start_queue_runners starts.
void add_queue_runner(const QueueRunner& runner);
std::vector<QueueRunner> queue_runners();
std::vector<QueueRunner> queue_runners(const Graph& graph);
// Starts all runners of the graph, or those given.
CoordinatedThreads start_queue_runners(const Graph& graph, Session& session,
                                       Coordinator& coordinator);
CoordinatedThreads start_queue_runners(const std::vector<QueueRunner>& runners, Session& session,
                                       Coordinator& coordinator);

}  // namespace cohort
