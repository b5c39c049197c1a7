#pragma once

#include <cstdint>

// What watches over training with several replicas.

namespace cohort {

enum class GuardAction {
  Off,   // does not look
  Warn,  // says so in the log and goes on
  Skip,  // says so and leaves the update out, in all replicas
  Stop,  // throws, in all replicas
};

struct GuardOptions {
  // Compares the copies of the variables that an optimizer updates, by their hashes, after the
  // first update and after each `divergence_interval`-th. Copies that differ name the variable, the
  // replicas and the step: DataLoss, or a warning. Variables that were written copy by copy
  // (aggregation None, extended().update()) may differ and are left out. 0 = never.
  int64_t divergence_interval = 100;
  GuardAction divergence = GuardAction::Stop;  // Skip is Stop
  // Looks for NaN and infinities in the gradients before each update, and names the variables and
  // the replicas that they come from: InvalidArgument when it stops. Costs one pass over the
  // gradients.
  GuardAction non_finite = GuardAction::Off;
  // Speaks up when a replica writes its own copy of a mirrored variable alone (aggregation None),
  // so that copies may come to differ: names the variable and the replica. FailedPrecondition when
  // it stops; a warning otherwise, once for each variable.
  GuardAction lone_writes = GuardAction::Off;
};

}  // namespace cohort
