#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cluster/link.h"
#include "ops/run_context.h"
#include "runtime/compiled_run.h"

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

}  // namespace cohort::internal
