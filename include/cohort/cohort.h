#pragma once

// The whole public API.

#include "cohort/accumulator.h"            // IWYU pragma: export
#include "cohort/checkpoint.h"             // IWYU pragma: export
#include "cohort/cluster.h"                // IWYU pragma: export
#include "cohort/cluster_resolver.h"       // IWYU pragma: export
#include "cohort/collective.h"             // IWYU pragma: export
#include "cohort/container.h"              // IWYU pragma: export
#include "cohort/control_flow.h"           // IWYU pragma: export
#include "cohort/credentials.h"            // IWYU pragma: export
#include "cohort/cross_device_ops.h"       // IWYU pragma: export
#include "cohort/data.h"                   // IWYU pragma: export
#include "cohort/device.h"                 // IWYU pragma: export
#include "cohort/distributed_dataset.h"    // IWYU pragma: export
#include "cohort/dtype.h"                  // IWYU pragma: export
#include "cohort/error.h"                  // IWYU pragma: export
#include "cohort/function.h"               // IWYU pragma: export
#include "cohort/gradient.h"               // IWYU pragma: export
#include "cohort/graph.h"                  // IWYU pragma: export
#include "cohort/graph_variable.h"         // IWYU pragma: export
#include "cohort/guards.h"                 // IWYU pragma: export
#include "cohort/hooks.h"                  // IWYU pragma: export
#include "cohort/metrics.h"                // IWYU pragma: export
#include "cohort/monitored_session.h"      // IWYU pragma: export
#include "cohort/native_function.h"        // IWYU pragma: export
#include "cohort/nn.h"                     // IWYU pragma: export
#include "cohort/ops.h"                    // IWYU pragma: export
#include "cohort/optim.h"                  // IWYU pragma: export
#include "cohort/partitioner.h"            // IWYU pragma: export
#include "cohort/queue.h"                  // IWYU pragma: export
#include "cohort/random.h"                 // IWYU pragma: export
#include "cohort/replica_device_setter.h"  // IWYU pragma: export
#include "cohort/scheduler_resolvers.h"    // IWYU pragma: export
#include "cohort/server.h"                 // IWYU pragma: export
#include "cohort/session.h"                // IWYU pragma: export
#include "cohort/session_manager.h"        // IWYU pragma: export
#include "cohort/shape.h"                  // IWYU pragma: export
#include "cohort/strategy.h"               // IWYU pragma: export
#include "cohort/supervisor.h"             // IWYU pragma: export
#include "cohort/sync_replicas.h"          // IWYU pragma: export
#include "cohort/tensor.h"                 // IWYU pragma: export
#include "cohort/threads.h"                // IWYU pragma: export
#include "cohort/values.h"                 // IWYU pragma: export
#include "cohort/variable.h"               // IWYU pragma: export
#include "cohort/variable_scopes.h"        // IWYU pragma: export
