#pragma once

#include <atomic>
#include <exception>
#include <set>

#include "base/mutex.h"
#include "base/thread.h"
#include "cohort/coordinator.h"
#include "coordinator/closure_queue.h"
#include "coordinator/coordinator_failures.h"
#include "coordinator/parameter_server_strategy.h"
#include "coordinator/worker_channel.h"

namespace cohort::internal {

// How long a worker waits before it takes its first function, so that not all begin at once.
std::chrono::milliseconds start_delay(int worker);

// The state that all handles of a strategy's coordinator share: the queue, a channel for each
// worker, and the threads that take from the queue and run on the channels. Thread-safe.
class ClusterCoordinatorState {
 public:
  ClusterCoordinatorState(Strategy& strategy, ParameterServerExtended& extended,
                          ClusterCoordinatorOptions options);
  // Cancels the functions that wait or run, and waits for the running ones. Logs what that leaves
  // undone, unless an exception unwinds the stack.
  ~ClusterCoordinatorState();

  std::shared_ptr<RemoteResult> schedule(std::optional<int> worker,
                                         const std::function<TracedCall()>& trace,
                                         const RemoteArguments::Impl& remote,
                                         std::shared_ptr<const void>& structure);
  void join() { queue_.join(); }
  bool done() { return queue_.done(); }
  int num_workers() const { return static_cast<int>(channels().size()); }
  int add_worker(const std::string& address);
  void shut_down();

 private:
  using Channels = std::vector<std::shared_ptr<WorkerChannel>>;
  // The channels by the numbers of the workers.
  Channels channels() const {
    const std::lock_guard lock(channels_mutex_);
    return channels_;
  }
  void add_channel(int task, const std::string& address);
  void start_threads(const std::shared_ptr<WorkerChannel>& channel);

  // Traces for the workers. Throws FailedPrecondition for a function that cannot be serialized.
  ClosurePtr traced(const std::function<TracedCall()>& trace, const RemoteArguments::Impl& remote);
  ClosureQueue::Leftover stop(const Status& why);

  // The body of a worker's thread: takes closures and runs them while there is a session.
  void serve(WorkerChannel& channel, const std::stop_token& stop);
  // Returns whether there is a session. Tries to open one, and pauses when that fails.
  bool connect(WorkerChannel& channel, const std::stop_token& stop);
  void run(WorkerChannel& channel, const ClosurePtr& closure);
  // Makes the updates with the gathered gradients; `number` is that of the first update, see
  // Grouping. The error that it throws names the parameter server at fault.
  void update(const Updates& updates, int64_t number);
  // The same, but repeats the update itself when a parameter server is lost: no function would be
  // run again.
  void update_rest(const Updates& updates, int64_t number);
  // When a function began to run, and in which session of the channel.
  struct Attempt {
    uint64_t generation;
    std::chrono::steady_clock::time_point begun;
  };
  void handle(WorkerChannel& channel, const ClosurePtr& closure, const Status& status,
              const Attempt& attempt);
  void handle_lost_ps(WorkerChannel& channel, const ClosurePtr& closure, const Status& status,
                      const Attempt& attempt);
  // The error of a function that needs the variables of that server.
  Status lost_server(const std::string& ps, const Status& cause) const;
  // Waits for the server and restores the variables. Throws Unavailable when that fails.
  void recover(const std::string& ps, const Status& why);
  void restore(const std::string& ps);
  // The ID of a call under a number of this coordinator, see kIdempotentUpdate.
  Tensor call_id(int64_t call, int64_t coordinator) const {
    return Tensor({coordinator, call, queue_.all_done_below()});
  }
  static constexpr std::chrono::milliseconds kRetryPause{200};

  const int exceptions_before_ = std::uncaught_exceptions();
  Strategy& strategy_;
  ParameterServerExtended& extended_;
  const ClusterCoordinatorOptions options_;
  const int64_t first_number_;
  std::atomic<int64_t> number_;  // changes when variables are restored
  FailureClassifier failures_;
  mutable Mutex channels_mutex_;
  Channels channels_;                   // guarded by channels_mutex_, as the next
  std::map<int, std::string> workers_;  // addresses by task
  ClosureQueue queue_;

  Turn recovering_;     // before mutex_
  Incidents restores_;  // guarded by recovering_

  Mutex mutex_;
  // The traces that can be serialized; guarded by mutex_, as all below.
  std::set<std::weak_ptr<const Trace>, std::owner_less<>> checked_;
  std::map<int, std::chrono::steady_clock::time_point> lost_since_;  // workers
  std::vector<Thread> threads_;
};

}  // namespace cohort::internal
