#pragma once

#include "cohort/strategy.h"

namespace cohort::internal {

// The strategy of code that uses none: everything happens as it would without strategies.
Strategy& default_strategy();
ReplicaContext& default_replica_context();

}  // namespace cohort::internal
