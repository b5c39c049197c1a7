#pragma once

#include "cohort/checkpoint.h"

namespace cohort::internal {

// Trackable::bytes() for bytes that are the same on all workers: a checkpoint keeps those of the
// chief, and every worker restores them.
Trackable common_bytes(Trackable::SaveBytes save, Trackable::RestoreBytes restore);

// Returns the variables of all tracked objects, by path, without the slots of optimizers.
nn::NamedVariables tracked_variables(const Checkpoint& checkpoint);

}  // namespace cohort::internal
