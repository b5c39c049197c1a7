#pragma once

#include "cohort/cluster_resolver.h"

namespace cohort::internal {

// Throws InvalidArgument unless the cluster is one for parameter servers and the resolver's task,
// when it says one, has a role in it.
void check_roles(const ClusterResolver& resolver);

// Whether this process says what the others do: the chief, or a program that is no task.
bool is_chief(const ClusterResolver& resolver);

}  // namespace cohort::internal
