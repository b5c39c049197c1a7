#pragma once

#include <atomic>

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
                                         std::shared_ptr<const void>& structure);
  void join() { queue_.join(); }
  bool done() { return queue_.done(); }
  int num_workers() const { return static_cast<int>(channels_.size()); }
  void shut_down();

 private:
  // Traces for the workers. Throws FailedPrecondition for what cannot travel.
  TracedCall traced(const std::function<TracedCall()>& trace);
  void stop(const Status& why);

  // A thread of a worker: takes closures and has them run, while there is a session.
  void serve(WorkerChannel& channel, const std::stop_token& stop);
  // Whether there is a session; tries to get one, and pauses when that fails.
  bool connect(WorkerChannel& channel, const std::stop_token& stop);
  void run(WorkerChannel& channel, const ClosurePtr& closure);
  void handle(WorkerChannel& channel, const ClosurePtr& closure, const Status& status,
              uint64_t generation);
  void handle_lost_ps(WorkerChannel& channel, const ClosurePtr& closure, const Status& status,
                      uint64_t generation);
  // Waits for the server and has the variables restored. Throws Unavailable when that fails.
  void recover(const std::string& ps, const Status& why);
  void restore(const std::string& ps);
  Tensor claim_of(const Closure& closure) const;

  Strategy& strategy_;
  ParameterServerExtended& extended_;
  const ClusterCoordinatorOptions options_;
  // Later coordinators of a cluster have larger ones; so has this one after it restored variables.
  std::atomic<int64_t> number_;
  FailureClassifier failures_;
  std::vector<std::unique_ptr<WorkerChannel>> channels_;
  ClosureQueue queue_;

  std::mutex recovering_;  // one at a time; before mutex_
  int restores_ = 0;       // guarded by recovering_

  std::mutex mutex_;
  std::set<const Trace*> checked_;                    // that can travel; guarded, as the next
  std::vector<std::shared_ptr<const Trace>> traces_;  // keep them apart from later ones
  std::map<int, std::chrono::steady_clock::time_point> lost_since_;  // workers
  std::vector<Thread> threads_;
};

}  // namespace cohort::internal
