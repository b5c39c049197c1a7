#pragma once

// The rest of the interface, beside cohort.h: training loops over graphs (sessions with hooks and
// recovery, the Supervisor, synchronous replicas, the placement of parameters on ps tasks, queues,
// accumulators and helper threads), and what few training programs use: collective calls between
// tasks, the clusters of job schedulers, and reading event files. Not included are mpi.h, torch.h
// (LibTorch) and legacy.h (the first names).

#include "cohort/collective.h"             // IWYU pragma: export
#include "cohort/event_file.h"             // IWYU pragma: export
#include "cohort/hooks.h"                  // IWYU pragma: export
#include "cohort/monitored_session.h"      // IWYU pragma: export
#include "cohort/queue.h"                  // IWYU pragma: export
#include "cohort/replica_device_setter.h"  // IWYU pragma: export
#include "cohort/scheduler_resolvers.h"    // IWYU pragma: export
#include "cohort/supervisor.h"             // IWYU pragma: export
#include "cohort/sync_replicas.h"          // IWYU pragma: export
#include "cohort/threads.h"                // IWYU pragma: export
