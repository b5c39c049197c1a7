#pragma once

// The state that the copies of a torch module share. Users include cohort/torch.h instead.

#include <torch/torch.h>

#include <array>
#include <atomic>
#include <deque>
#include <vector>

#include "cohort/internal/run_observer.h"
#include "cohort/internal/torch_copies.h"
#include "cohort/internal/torch_statistics.h"
#include "cohort/internal/torch_sync_norm.h"
#include "cohort/internal/torch_tensors.h"

namespace cohort::internal {

// TorchState keeps the copies of one torch module consistent before and after each run.
class TorchState final : public RunObserver {
 public:
  // For a module of the current strategy.
  explicit TorchState(size_t num_copies)
      : strategy(get_strategy()),
        copies(num_copies),
        several_replicas(strategy.num_replicas_in_sync() > 1),
        has_met_(num_copies) {}

  std::array<SharedTensors*, 3> kinds() { return {&parameters, &frozen, &buffers}; }
  void follow(size_t copy) {
    for (SharedTensors* kind : kinds()) kind->follow(copy);
  }

  // Called before code outside `run` uses the module. Throws FailedPrecondition if something wrote
  // to parameters, but not through their variables, or replaced parts of the module.
  void settle() {
    if (runs_ > 0) return;
    parts.require_unchanged();
    if (!several_replicas) return;
    for (size_t copy = 0; copy < copies; ++copy) require_no_other_writes(copy);
    statistics.settle(copies);
  }
  void before_run() override {
    settle();
    if (runs_ == 0) modes.spread();
    ++runs_;
  }
  void after_run(bool failed) override {
    if (--runs_ > 0) return;
    modes.note();
    if (failed) return statistics.undo_run(copies);
    try {
      parts.require_unchanged();
      for (size_t copy = 0; copy < copies; ++copy) require_no_other_writes(copy);
      statistics.aggregate(strategy, copies);
    } catch (...) {
      // The run fails with this error, for example with the loss of a worker. What its replicas
      // wrote must not be taken for writes of the program outside of run().
      statistics.undo_run(copies);
      throw;
    }
  }

  // Called before an update or another change of a copy, which would hide earlier writes.
  void require_no_other_writes(size_t copy) {
    for (SharedTensors* kind : kinds()) kind->require_no_other_writes(copy);
  }
  // Called before an update of a copy. Throws FailedPrecondition, naming the parameter, if a
  // parameter should learn that was frozen when the module was made.
  void require_frozen(size_t copy) const {
    for (size_t i = 0; i < frozen.variables().size(); ++i) {
      if (!frozen.of_copy(copy)[i].requires_grad()) continue;
      throw Error(Code::FailedPrecondition,
                  "[TorchModule] parameter '" + frozen.variables()[i].name() +
                      "' was frozen when the module was made, so no optimizer knows it, and has "
                      "requires_grad now; leave requires_grad on in the module's constructor, and "
                      "freeze the parameter with requires_grad_(false) afterwards");
    }
  }
  // An update takes the copy's values away for a while. The first update waits until all replicas
  // have computed their losses. A replica that used another replica's copy then gets an error that
  // says so instead of an empty tensor. A program with this fault has it from its first update on.
  void meet_before_first_update(size_t copy) {
    if (copies == 1 || has_met_[copy]) return;
    if (ReplicaContext* const replica = get_replica_context()) {
      replica->merge_call([](Strategy&) {});
      has_met_[copy] = true;
    }
  }
  // Called before a replica changes its copy. Throws FailedPrecondition if copies share memory.
  void require_own_memory() const {
    if (!parameters.is_shared() && !frozen.is_shared()) return;
    throw Error(Code::FailedPrecondition,
                "[TorchModule] configure() inside run() would make the change once for each "
                "replica of one set of parameters, which this strategy keeps for all replicas; "
                "call configure() outside run()");
  }

  Strategy& strategy;
  const size_t copies;
  const bool several_replicas;
  SharedTensors parameters{{.several_replicas = several_replicas, .replicas_write = false}};
  SharedTensors frozen{{.several_replicas = several_replicas, .replicas_write = false}};
  SharedTensors buffers{{.several_replicas = several_replicas, .replicas_write = true}};
  TorchStatistics statistics{buffers};
  TorchModes modes;
  TorchParts parts;
  std::deque<SyncedNorms> synced_norms;  // by copy; empty without sync_batch_norm

 private:
  std::vector<char> has_met_;  // by copy; each replica uses its own entry
  std::atomic<int> runs_ = 0;  // that are running; settle() then leaves the copies alone
};

}  // namespace cohort::internal
