#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/partition.h"
#include "ops/run_context.h"
#include "runtime/plan.h"
#include "runtime/session_impl.h"
#include "tensor/devices.h"

namespace cohort::internal {

// The values that the settled steps of a plan (see Plan) made on one device, kept for later runs:
// looking up state by name in every run costs more than using it. Thread-safe.
class SettledValues {
 public:
  // `clears` counts how often state on the device was cleared; values from before a clear are not
  // used. The counter must outlive this object. Null: state is never cleared.
  explicit SettledValues(const std::atomic<uint64_t>* clears = nullptr) : clears_(clears) {}

  struct Kept {
    uint64_t clears = 0;                                     // when the run asked
    std::shared_ptr<const std::vector<Tensor>> values = {};  // null: the run has to make them
  };
  Kept get() const {
    const uint64_t clears = clears_ == nullptr ? 0 : clears_->load();
    const std::lock_guard lock(mutex_);
    return kept_.clears == clears ? kept_ : Kept{clears, nullptr};
  }
  // `values` were made by a run that asked at `clears`.
  void put(uint64_t clears, std::vector<Tensor> values) {
    auto kept = std::make_shared<const std::vector<Tensor>>(std::move(values));
    const std::lock_guard lock(mutex_);
    kept_ = {clears, std::move(kept)};
  }

 private:
  const std::atomic<uint64_t>* const clears_;
  mutable std::mutex mutex_;
  Kept kept_;  // guarded by mutex_
};

// The compiled form of what this process does in the runs of one signature: a plan per device,
// where feeds and fetches go, and which tensors the parts take from other parts, here or elsewhere.
// It is constant except for the measured cost.
struct CompiledRun : PreparedRun {
  struct Part {
    const Device* device = nullptr;  // of this process, in whose name kernels run
    std::string device_name = {};    // as errors and timelines call it
    ResourceTable* table = nullptr;  // null: named state ends with the run
    std::shared_ptr<const Plan> plan = {};
    std::vector<size_t> feeds = {};  // positions in the request, in the plan's order
    std::vector<size_t> fetches = {};
    std::shared_ptr<SettledValues> settled = {};
  };
  // A tensor that a part takes from another part.
  struct Arrival {
    size_t part;
    DType dtype;
    Shape shape;
    std::string tensor;  // the name of the node that computes it
    std::string sender;  // the task
  };
  static constexpr int kNone = -1;

  std::vector<Part> parts = {};
  size_t num_fetches = 0;
  std::vector<Arrival> arrivals = {};
  std::vector<int> arrival_places = {};  // by edge: a place in `arrivals`, or kNone
  bool may_wait = false;                 // for what other runs do, such as a queue's

  // Compiles the part for the device of this process with that name. The edges of the part must be
  // below arrival_places.size(), and each may be taken once. Throws InvalidArgument.
  Part& add(const Partition& part, const Device& device, StepOrder order);

  // The computing time of the last run; unknown before the first run.
  mutable std::atomic<int64_t> cost_ns{-1};
  // Whether the run takes less time than waking another thread. Then the thread that makes a part
  // ready runs the part, too.
  bool is_quick() const;

 private:
  void note_arrival(const Node& node);
};

// Cuts the nodes that the request needs by device and compiles the parts. `devices` has one device
// for each node of the graph; all must be devices of this process.
std::shared_ptr<CompiledRun> compile_parts(const GraphImpl& graph,
                                           const std::vector<DeviceName>& devices,
                                           const RunRequest& request);

}  // namespace cohort::internal
