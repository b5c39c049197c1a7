#pragma once

#include "cohort/checkpoint.h"

namespace cohort::internal {

// As Trackable::bytes(), of bytes that are the same on all workers: a checkpoint keeps the chief's,
// and every worker gets those.
Trackable common_bytes(Trackable::SaveBytes save, Trackable::RestoreBytes restore);

}  // namespace cohort::internal
