#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cluster/device_state.h"
#include "cluster/link.h"
#include "runtime/plan.h"
#include "runtime/settled.h"
#include "tensor/devices.h"

namespace cohort::internal {

// What a task does in the runs of one signature, compiled. Constant but for the measured cost.
struct WorkerPlan {
  struct Part {
    const Device* device;     // of this process, in whose name kernels run
    std::string told_device;  // as others know it: "/job:ps/replica:0/task:1/device:CPU:0"
    ResourceTable* table;
    std::shared_ptr<const Plan> plan;
    std::vector<size_t> feeds;  // positions among the task's, in the plan's order
    std::vector<size_t> fetches;
    std::shared_ptr<SettledValues> settled;
  };
  struct Arrival {
    DType dtype;
    Shape shape;
    std::string tensor;  // by the name of the node that computes it
    std::string sender;  // the task
    int part;            // that takes it
  };
  static constexpr int kNone = -1;

  uint64_t session = 0;
  uint64_t id = 0;
  std::shared_ptr<DeviceState> state = {};  // that the parts' tables are of
  std::vector<Part> parts = {};
  size_t num_feeds = 0;
  size_t num_fetches = 0;
  std::vector<int> destinations = {};    // by edge: a place in `peers`, or kNone
  std::vector<int> arrival_places = {};  // by edge: a place in `arrivals`, or kNone
  std::vector<Arrival> arrivals = {};    // what parts of this task take from other parts
  std::vector<Link::Pointer> peers = {};
  int master = kNone;  // the peer that is the task of the master: what goes there last goes with
                       // the result
  std::vector<std::string> sources = {};  // tasks that tensors come from
  bool may_wait = false;                  // for what other runs do, as a queue's

  // Of the last run, without waiting; unknown before.
  mutable std::atomic<int64_t> cost_ns{-1};
  // Whether a thread that reads a connection may run it: it is over before anybody notices.
  bool is_quick() const;
};

// Checks everything and compiles. `state` and `peers` (one link for each peer named in the message)
// must fit the message. `task` is this task's name, `master` the one's that the message came from.
// Throws InvalidArgument for what cannot be.
std::shared_ptr<const WorkerPlan> make_worker_plan(const RegisterPlan& from,
                                                   std::shared_ptr<DeviceState> state,
                                                   std::vector<Link::Pointer> peers,
                                                   const std::string& task,
                                                   const std::string& master);

}  // namespace cohort::internal
