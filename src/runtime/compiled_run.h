#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "graph/partition.h"
#include "graph/run_request.h"
#include "ops/run_context.h"
#include "runtime/session_impl.h"
#include "tensor/devices.h"

namespace cohort::internal {

// A part of a graph, pruned, ordered and flattened for running: steps over numbered slots, without
// names and maps. It is immutable, so any number of threads may run it at the same time.
struct Plan {
  struct Step {
    const OpDef* op;
    const Node* node;  // for messages and traces; its attributes are the step's
    int first_input;   // into input_slots
    int num_inputs;
    int first_output;  // slots are numbered consecutively per step
    int num_outputs;
    uint32_t last_uses = 0;     // bit i: input i's slot is not needed after this step
    bool check_inputs = false;  // a shape was unknown when the node was created
    int first_unused = 0;       // into unused_outputs
    int num_unused = 0;
    int64_t arrives_by = -1;  // the edge, if the step takes a tensor from another part,
    int64_t leaves_by = -1;   // or sends a tensor to another part
  };

  std::shared_ptr<const GraphImpl> graph;  // keeps nodes alive
  // The first `num_settled` steps are settled: they return the same values in every run on one
  // device (constants, handles of variables). Their outputs fill the slots right after those of the
  // feeds.
  std::vector<Step> steps;
  size_t num_settled = 0;
  int first_settled_slot = 0;
  int num_settled_slots = 0;
  std::vector<int> input_slots;
  std::vector<int> feed_slots;
  std::vector<int> fetch_slots;
  std::vector<int> unused_outputs;  // slots that no step reads, dropped after the step
  int num_slots = 0;
};

// EffectsEarly: nodes that change state run as early as possible, after the readers of the old
// state, so that gradients are freed as soon as they are used. AsMade: nodes run in the order of
// their creation. All parts of a cut graph share that order, so that no two parts wait for each
// other.
enum class StepOrder { EffectsEarly, AsMade };

// Keeps the nodes that the fetches and targets need, back to the feeds, and puts them in an order
// in which every input comes before its readers.
std::shared_ptr<const Plan> compile(std::shared_ptr<const GraphImpl> graph,
                                    const RunRequest& request, StepOrder order);

// The values that the settled steps of a plan (see Plan) made on one device, kept for later runs:
// looking up state by name in every run costs more than using it. Thread-safe.
class SettledValues {
 public:
  // `clears` counts how often state on the device was cleared; values from before a clear are not
  // used. The counter must outlive this object. Null: state is never cleared.
  explicit SettledValues(const std::atomic<uint64_t>* clears = nullptr) : clears_(clears) {}

  struct Kept {
    uint64_t clears = 0;                                     // when the run requested the values
    std::shared_ptr<const std::vector<Tensor>> values = {};  // null: the run has to compute them
  };
  Kept get() const {
    const uint64_t clears = clears_ == nullptr ? 0 : clears_->load();
    const std::lock_guard lock(mutex_);
    return kept_.clears == clears ? kept_ : Kept{clears, nullptr};
  }
  // Keeps `values` of a run that requested them when the counter was `clears`.
  void put(uint64_t clears, std::vector<Tensor> values) {
    auto kept = std::make_shared<const std::vector<Tensor>>(std::move(values));
    const std::lock_guard lock(mutex_);
    kept_ = {clears, std::move(kept)};
  }

 private:
  const std::atomic<uint64_t>* const clears_;
  mutable Mutex mutex_;
  Kept kept_;  // guarded by mutex_
};

// The compiled form of what this process does in the runs of one signature: a plan per device,
// where feeds and fetches go, and which tensors the parts take from other parts, here or elsewhere.
// It is constant except for the measured cost.
struct CompiledRun : PreparedRun {
  struct Part {
    const Device* device = nullptr;  // of this process, on which kernels run
    std::string device_name = {};    // the name in errors and timelines
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
  bool may_wait = false;                 // for other runs, such as those that fill a queue

  // Compiles the part for the device of this process with that name. The edges of the part must be
  // below arrival_places.size(), and each may be taken once. Throws InvalidArgument.
  Part& add(const Partition& part, const Device& device, StepOrder order);

  // The computing time of the last run; unknown before the first run.
  mutable std::atomic<int64_t> cost_ns{-1};
  // Whether the run takes less time than waking another thread. If so, the thread that makes a part
  // ready also runs the part.
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
