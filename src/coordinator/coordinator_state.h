#pragma once

#include <atomic>
#include <set>

#include "base/mutex.h"
#include "base/thread.h"
#include "cohort/coordinator.h"
#include "coordinator/failure.h"
#include "coordinator/parameter_server_extended.h"
#include "coordinator/worker_channel.h"

namespace cohort::internal {

// What all handles of a strategy's coordinator share: the queue, a channel for each worker and the
// threads that bring the two together. Thread-safe.
class ClusterCoordinatorState {
 public:
  ClusterCoordinatorState(Strategy& strategy, ParameterServerExtended& extended,
                          ClusterCoordinatorOptions options);
  // Cancels what runs and waits.
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
  // By the numbers of the workers.
  Channels channels() const;
  void add_channel(int task, const std::string& address);
  void start_threads(const std::shared_ptr<WorkerChannel>& channel);
  std::optional<DeviceName> find_kept(const KeptOn& kept) const;

  // Traces for the workers. Throws FailedPrecondition for what cannot travel.
  ClosurePtr traced(const std::function<TracedCall()>& trace, const RemoteArguments::Impl& remote);
  void stop(const Status& why);

  // A thread of a worker: takes closures and has them run, while there is a session.
  void serve(WorkerChannel& channel, const std::stop_token& stop);
  // Whether there is a session; tries to get one, and pauses when that fails.
  bool connect(WorkerChannel& channel, const std::stop_token& stop);
  void run(WorkerChannel& channel, const ClosurePtr& closure);
  // With the gradients that have been gathered; `number` is the first one's, see Grouping. Throws
  // what names the parameter server at fault.
  void update(const Updates& updates, int64_t number);
  // The same when no function is there that would be run again where a parameter server is lost.
  void update_rest(const Updates& updates, int64_t number);
  // When a function began to run, and in which of the channel's sessions.
  struct Attempt {
    uint64_t generation;
    std::chrono::steady_clock::time_point begun;
  };
  void handle(WorkerChannel& channel, const ClosurePtr& closure, const Status& status,
              const Attempt& attempt);
  void handle_lost_ps(WorkerChannel& channel, const ClosurePtr& closure, const Status& status,
                      const Attempt& attempt);
  // Waits for the server and has the variables restored. Throws Unavailable when that fails.
  void recover(const std::string& ps, const Status& why);
  void restore(const std::string& ps);
  // Names a call to parameter servers, see kOnce, or under another number of this coordinator.
  Tensor claim_of(int64_t call) const { return claim_of(call, number_); }
  Tensor claim_of(int64_t call, int64_t coordinator) const;
  // Returns a number larger than those of earlier coordinators, unless the clocks of their machines
  // were ahead. In that case the parameter servers refuse this coordinator's updates with an error.
  static int64_t new_number();

  static constexpr std::chrono::milliseconds kRetryPause{200};

  Strategy& strategy_;
  ParameterServerExtended& extended_;
  const ClusterCoordinatorOptions options_;
  const int64_t first_number_;
  std::atomic<int64_t> number_;  // a new one after variables were restored
  FailureClassifier failures_;
  mutable Mutex channels_mutex_;
  Channels channels_;                   // guarded by channels_mutex_, as the next
  std::map<int, std::string> workers_;  // addresses by task
  ClosureQueue queue_;

  Turn recovering_;     // before mutex_
  Incidents restores_;  // guarded by recovering_

  Mutex mutex_;
  // Those that can travel; guarded by mutex_, as the next.
  std::set<std::weak_ptr<const Trace>, std::owner_less<>> checked_;
  std::map<int, std::chrono::steady_clock::time_point> lost_since_;  // workers
  std::vector<Thread> threads_;                                      // guarded by mutex_
};

}  // namespace cohort::internal
