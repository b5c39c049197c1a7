#pragma once

#include "cohort/hooks.h"

namespace cohort::internal {

// One run together with what the hooks want of it.
struct HookedRun {
  std::vector<Tensor> results;  // of the caller's fetches
  bool stop_requested = false;
};

// Asks the hooks, runs once, and gives each its values. Throws InvalidArgument naming a tensor that
// is fed by two of them, or by one and the caller; the caller's feeds are not changed.
HookedRun run_with_hooks(Session& session, const Hooks& hooks, const std::vector<Tensor>& fetches,
                         const Feeds& feeds, const RunOptions& options, RunMetadata* metadata);

}  // namespace cohort::internal
