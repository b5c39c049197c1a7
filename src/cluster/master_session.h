#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/mutex.h"
#include "cluster/master_step.h"
#include "cluster/placement.h"
#include "graph/serialize_graph.h"

namespace cohort::internal {

// A session on its server: the client's graph, the placement of its nodes, the plans that were
// registered with tasks, and the steps under way. Thread-safe.
class MasterSession : public std::enable_shared_from_this<MasterSession> {
 public:
  MasterSession(uint64_t id, Link::Pointer client, const OpenSession& request,
                const std::shared_ptr<Peers>& peers, std::shared_ptr<Timers> timers,
                const std::vector<std::string>& local_devices);

  uint64_t id() const { return id_; }
  const std::string& client_name() const { return client_name_; }
  bool is_of(const Link::Pointer& client) const { return client == client_; }
  uint64_t num_steps() const { return next_step_.load() - 1; }

  uint64_t extend(const ExtendSession& request);
  // The answer has the number of the run and, if requested, where nodes were placed for it.
  Answer prepare(const PrepareRun& request);
  std::vector<std::string> list_devices() {
    const std::lock_guard lock(building_);
    return placement_.list_devices(gathering({}));
  }

  void run(RunStep run);
  // Forgets the run, here and on the tasks that take part in it; steps that have begun go on.
  void release(uint64_t run);
  void cancel(const CancelStep& cancel);
  void done(const Link::Pointer& task, PlanDone outcome);
  void lost(const Link::Pointer& task, const Status& why) {
    for (const StepPointer& step : running()) step->lost(task, why);
  }
  // What a run waits for, if that is another task.
  std::optional<PendingWait> pending_wait() const;
  // Adds what the runs of the session have waited for since before that time.
  void add_waits(std::chrono::steady_clock::time_point before, std::vector<LongWait>& waits) const;

  // Ends all runs with `why`, which later calls throw, too, and tells the tasks. Waits for a
  // limited time until nothing runs.
  void close(const Status& why);

 private:
  using PlanPointer = std::shared_ptr<const MasterPlan>;
  using StepPointer = std::shared_ptr<MasterStep>;

  Gathering gathering(std::chrono::milliseconds limit) const;
  RunRequest request_for(const GraphImpl& graph, const PrepareRun& request) const;
  void register_plan(MasterPlan& plan, const Gathering& gathering);
  // Tells the task to forget the session. Without a link there is nothing to forget.
  void close_on(const Link::Pointer& task) const;
  // Tells the tasks that have their parts of the plan to drop them.
  void release(const MasterPlan& plan) const;
  void check_incarnation(const std::string& task, const Link::Pointer& link);
  void start(const PlanPointer& plan, RunStep run);
  // An error if a task that the session has used, and that the plan needs, is lost; otherwise OK.
  // Connects to the lost task to see whether it was restarted, and the error says which is the
  // case.
  Status lost_task_of(const MasterPlan& plan) const;
  void finish(uint64_t step, StepDone result);
  std::vector<StepPointer> running() const;

  const uint64_t id_;
  const Link::Pointer client_;
  const std::string client_name_;
  const SessionOptions options_;
  const TaskDirectory directory_;
  const std::shared_ptr<Timers> timers_;
  std::atomic<uint64_t> next_step_{1};
  std::atomic<uint64_t> numbered_runs_{0};

  Turn building_;       // one extension or placement at a time; before mutex_
  GraphReader reader_;  // guarded by building_, as the next
  ClusterPlacement placement_;
  std::shared_ptr<GraphImpl> graph_;
  uint64_t version_ = 1;

  mutable Mutex mutex_;
  std::map<std::string, uint64_t> incarnations_;  // of tasks; guarded by mutex_, as all below
  std::map<std::string, Link::Pointer> tasks_;    // that know the session
  std::unordered_map<uint64_t, PlanPointer> plans_;
  uint64_t next_plan_ = 0;
  std::unordered_map<uint64_t, StepPointer> steps_;
  std::unordered_map<uint64_t, uint64_t> calls_;  // the client's number of a step -> ours
  std::condition_variable_any idle_;
  Status closed_;
};

}  // namespace cohort::internal
