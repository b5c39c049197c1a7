#pragma once

#include <mutex>

#include "cohort/internal/durations.h"
#include "cohort/queue.h"
#include "cohort/session.h"

// Helper threads of a training program: a Coordinator stops them together and reports their errors,
// and a QueueRunner is a set of threads that fill a queue.

namespace cohort {

// CoordinatedThread is a thread that a Coordinator started. Copies of the pointer share it.
class CoordinatedThread {
 public:
  CoordinatedThread(std::string name, std::function<void()> body);
  // Does not wait: a thread that still runs goes on.
  ~CoordinatedThread();
  CoordinatedThread(const CoordinatedThread&) = delete;
  CoordinatedThread& operator=(const CoordinatedThread&) = delete;

  const std::string& name() const;
  bool running() const;
  // Waits for the end of the thread, for at most `timeout`. Returns whether the thread has ended.
  bool join_for(std::chrono::milliseconds timeout);

 private:
  struct State;
  std::shared_ptr<State> state_;
  std::unique_ptr<internal::Thread> thread_;
};
using CoordinatedThreads = std::vector<std::shared_ptr<CoordinatedThread>>;

// CoordinatorOptions sets which errors of threads are a clean end.
struct CoordinatorOptions {
  // Errors with these codes request a stop, but are not failures: the input has ended.
  std::vector<Code> clean_stop_codes = {Code::OutOfRange};
};

// JoinOptions sets for which threads and for how long Coordinator::join() waits.
struct JoinOptions {
  CoordinatedThreads threads = {};  // in addition to the registered threads
  std::chrono::milliseconds stop_grace_period{120'000};
  // If true, threads that outlast the grace period are a warning instead of an error.
  bool ignore_live_threads = false;
};

// Coordinator stops several threads together and keeps the first error that one of them reports.
//
//   Coordinator coordinator;
//   coordinator.start_loop("check", std::chrono::seconds(10), [&] { session.run(loss); });
//   coordinator.wait_for_stop(std::chrono::seconds(60));
//   coordinator.request_stop();
//   coordinator.join();
//
// The destructor requests a stop and waits for at most the default grace period. Thread-safe.
class Coordinator {
 public:
  explicit Coordinator(const CoordinatorOptions& options = {});
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  // Runs `body` on a thread that join() waits for. An error of `body` goes to request_stop().
  std::shared_ptr<CoordinatedThread> start_thread(std::string name, std::function<void()> body);
  // Runs `body` at once, and then again after each `interval`, until request_stop().
  std::shared_ptr<CoordinatedThread> start_loop(std::string name,
                                                std::chrono::milliseconds interval,
                                                std::function<void()> body);
  // Makes join() wait also for a thread of other code. Throws InvalidArgument for nullptr.
  void register_thread(std::shared_ptr<CoordinatedThread> thread);

  void request_stop();
  // Requests a stop because of an error. join() throws this error, unless its code is a clean stop
  // code or a stop was requested before. After join() has returned, throws the error at once,
  // because no other call would report it.
  void request_stop(const Status& error);
  bool should_stop() const;
  // Waits for request_stop(), or until the timeout. Returns whether a stop was requested.
  bool wait_for_stop(std::optional<std::chrono::milliseconds> timeout = std::nullopt) const;
  // Resets the stop and the error, for use again. Threads stay registered.
  void clear_stop();

  // Throws the reported error, if one was reported.
  void raise_requested_exception() const;
  // Runs `body`. An error of `body` goes to request_stop(), and is not thrown.
  void stop_on_exception(const std::function<void()>& body);

  // Waits until all threads have ended, or until the grace period after request_stop() is over.
  // Then throws the reported error, or DeadlineExceeded with the names of threads that still run.
  void join(const JoinOptions& options = {});
  bool joined() const;

 private:
  friend class QueueRunner;
  std::shared_ptr<internal::CoordinatorState> state_;
};

// QueueRunnerOptions sets the ops that a QueueRunner uses.
struct QueueRunnerOptions {
  std::string name = "queue_runner";
  // Runs when the last thread has ended because the queue, or its source, is closed.
  Tensor close_op = {};
  // Runs again and again after the coordinator stops, until all threads have ended. It must end
  // what they wait for.
  Tensor cancel_op = {};
  // Errors with these codes mean that an op has no more elements to add.
  std::vector<Code> queue_closed_codes = {Code::OutOfRange};
};

// QueueRunner keeps a queue filled. Each enqueue op has a thread that runs the op again and again,
// until the coordinator stops or the op has no more elements to add.
//
//   auto building = graph.as_default();
//   FifoQueue queue({.capacity = 4, .components = {{kFloat32, {2}}}});
//   add_queue_runner(QueueRunner(queue, {queue.enqueue({random::uniform({2})})}));
//   Coordinator coordinator;
//   start_queue_runners(graph, session, coordinator);
//
// When the last thread of a session ends because its op has no more elements, the queue is closed.
// Copies share one runner. Thread-safe.
class QueueRunner {
 public:
  // Adds nodes that close the queue to the graph being built. Throws InvalidArgument without ops.
  QueueRunner(FifoQueue& queue, const std::vector<Tensor>& enqueue_ops);
  // Runs any ops again and again.
  QueueRunner(const std::vector<Tensor>& ops, const QueueRunnerOptions& options);

  const std::string& name() const;

  // Starts the threads. The coordinator waits for them and gets their errors; when it stops,
  // another thread runs cancel_op. Returns an empty list if threads of this runner already run for
  // this session.
  CoordinatedThreads create_threads(Session& session, Coordinator& coordinator) const;
  // Starts the threads without a coordinator. They end when the queue or the session is closed.
  CoordinatedThreads create_threads(Session& session) const;
  // Returns the errors with which threads without a coordinator have ended.
  std::vector<Status> exceptions_raised() const;

 private:
  struct State;
  CoordinatedThreads start(Session& session,
                           std::shared_ptr<internal::CoordinatorState> coordinator) const;
  std::shared_ptr<State> state_;
};

// The runners of the graph being built, or of `graph`, in the order in which they were added.
void add_queue_runner(const QueueRunner& runner);
std::vector<QueueRunner> queue_runners();
std::vector<QueueRunner> queue_runners(const Graph& graph);
// Starts all runners of the graph, or the given runners.
CoordinatedThreads start_queue_runners(const Graph& graph, Session& session,
                                       Coordinator& coordinator);
CoordinatedThreads start_queue_runners(const std::vector<QueueRunner>& runners, Session& session,
                                       Coordinator& coordinator);

}  // namespace cohort
