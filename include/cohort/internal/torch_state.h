#pragma once

// What the copies of a torch module have in common. Not for inclusion by users: include
// cohort/torch.h.

#include <torch/torch.h>

#include <atomic>
#include <deque>

#include "cohort/internal/run_observer.h"
#include "cohort/internal/torch_copies.h"
#include "cohort/internal/torch_statistics.h"
#include "cohort/internal/torch_sync_norm.h"
#include "cohort/internal/torch_tensors.h"

namespace cohort::internal {

class TorchState final : public RunObserver {
 public:
  // Of a module of the current strategy.
  explicit TorchState(size_t num_copies)
      : strategy(get_strategy()),
        copies(num_copies),
        several_replicas(strategy.num_replicas_in_sync() > 1) {}

  void follow(size_t copy) {
    for (SharedTensors* kind : {&parameters, &frozen, &buffers}) kind->follow(copy);
  }

  // Before code outside of `run` uses the module: throws FailedPrecondition when something wrote
  // parameters past their variables.
  void settle() {
    if (!several_replicas || runs_ > 0) return;
    parameters.require_no_other_writes();
    frozen.require_no_other_writes();
    statistics.settle(copies);
  }
  void before_run() override {
    settle();
    ++runs_;
  }
  void after_run(bool failed) override {
    if (--runs_ > 0 || failed) return;
    parameters.require_no_other_writes();
    frozen.require_no_other_writes();
    statistics.aggregate(strategy, copies);
  }

  Strategy& strategy;
  const size_t copies;
  const bool several_replicas;
  SharedTensors parameters{{.several_replicas = several_replicas, .replicas_write = false}};
  SharedTensors frozen{{.several_replicas = several_replicas, .replicas_write = false}};
  SharedTensors buffers{{.several_replicas = several_replicas, .replicas_write = true}};
  TorchStatistics statistics{buffers};
  TorchModes modes;
  std::deque<SyncedNorms> synced_norms;  // by copy; empty unless asked for

 private:
  std::atomic<int> runs_ = 0;  // that go on: code of other threads then leaves the copies alone
};

}  // namespace cohort::internal
