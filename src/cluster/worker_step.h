#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cluster/request_link.h"
#include "ops/run_context.h"
#include "runtime/compiled_run.h"
#include "runtime/graph_run.h"

namespace cohort::internal {

// The state on the devices of a task, or of one session there. Thread-safe.
class DeviceState {
 public:
  // `device` is the name within the task: "CPU:0".
  ResourceTable& of(const std::string& device) {
    const std::lock_guard lock(mutex_);
    return tables_[device];
  }

  void clear(const std::string& container) {
    const std::lock_guard lock(mutex_);
    for (auto& [device, table] : tables_) table.clear(container);
    ++clears_;  // afterwards: a run that finds something before that has noted the old number
  }
  // How often state was forgotten.
  const std::atomic<uint64_t>& clears() const { return clears_; }

 private:
  std::atomic<uint64_t> clears_ = 0;
  Mutex mutex_;
  std::map<std::string, ResourceTable> tables_;  // guarded by mutex_
};

// What a task does in the runs of one signature, compiled.
struct WorkerPlan : CompiledRun {
  uint64_t session = 0;
  uint64_t id = 0;
  std::shared_ptr<DeviceState> state = {};  // that the parts' tables are of
  size_t num_feeds = 0;
  std::vector<int> destinations = {};  // by edge: a place in `peers`, or kNone
  std::vector<Link::Pointer> peers = {};
  int master = kNone;  // the peer that is the task of the master: the last tensors for that task go
                       // with the result
  std::vector<std::string> sources = {};  // tasks that tensors come from
};

// Checks everything and compiles. `state` and `peers` (one link for each peer named in the message)
// must fit the message. `task` is this task's name, `master` the name of the task that sent the
// message. Throws InvalidArgument for a message that makes no sense.
std::shared_ptr<const WorkerPlan> make_worker_plan(const RegisterPlan& from,
                                                   std::shared_ptr<DeviceState> state,
                                                   std::vector<Link::Pointer> peers,
                                                   const std::string& task,
                                                   const std::string& master);

// One run of a task's plan. It begins with the first message about it: the request to run, or
// tensors from a task that was faster. Tensors for one peer are gathered and sent together: when a
// part stops or ends, or when they are many or old enough. Thread-safe.
class WorkerStep : public GraphRun {
 public:
  // Called once, at the end, with the fetches by position; not before start().
  using Finished = std::function<void(PlanDone)>;

  WorkerStep(std::shared_ptr<const WorkerPlan> plan, uint64_t id);

  // Throws InvalidArgument, before anything runs, for feeds that are not the plan's.
  void start(RunPlan run, Finished finished);
  // Tensors from another task. Throws InvalidArgument for those that the plan does not expect.
  void arrive(StepTensors tensors);

  // Adds what the step's parts have waited for since before that time.
  void add_waits(std::chrono::steady_clock::time_point before, std::vector<LongWait>& waits);

  const WorkerPlan& plan() const { return *plan_; }

 private:
  struct Outbox {
    StepTensors tensors = {};
    int64_t bytes = 0;
    std::chrono::steady_clock::time_point since = {};
  };
  static bool is_old(Outbox& outbox);

  // The place of an edge's tensor, which comes from outside.
  int checked_place(uint64_t edge, const Tensor& tensor) const;

  void run_part(size_t part) override;
  ResourceTable& resources(size_t part) override { return *plan_->parts[part].table; }
  uint64_t run_number() override { return run_.number; }
  void send_away(size_t part, int64_t edge, const Tensor& value) override;
  void before_taking(size_t part, bool has_arrived) override;
  void before_end(size_t part, bool is_last) override;
  void finished(RunResult result) override;

  // Sends what is gathered for the peer. Throws Unavailable, naming the peer, when it is lost.
  void flush(size_t peer, Outbox& outbox);
  StepTensors take(Outbox& outbox) const;

  const std::shared_ptr<const WorkerPlan> plan_;
  const uint64_t id_;
  RunPlan run_;  // constant from start() on, as the next
  Finished finished_;
  std::vector<std::vector<Outbox>> outboxes_;  // by part and peer; used by the part's thread
  StepTensors last_tensors_;                   // set by the thread that ends the last part

  Mutex mutex_;
  std::vector<std::shared_ptr<const void>> charges_;  // for tensors of peers; guarded by mutex_
};

}  // namespace cohort::internal
