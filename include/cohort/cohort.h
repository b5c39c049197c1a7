#pragma once

// Includes what a training program uses. graph_training.h includes the rest, except for torch.h
// (LibTorch), mpi.h and legacy.h (the first names).

#include "cohort/backup.h"               // IWYU pragma: export
#include "cohort/callbacks.h"            // IWYU pragma: export
#include "cohort/checkpoint.h"           // IWYU pragma: export
#include "cohort/cluster.h"              // IWYU pragma: export
#include "cohort/cluster_resolver.h"     // IWYU pragma: export
#include "cohort/coordinator.h"          // IWYU pragma: export
#include "cohort/cross_device_ops.h"     // IWYU pragma: export
#include "cohort/dataset.h"              // IWYU pragma: export
#include "cohort/device.h"               // IWYU pragma: export
#include "cohort/distributed_dataset.h"  // IWYU pragma: export
#include "cohort/dtype.h"                // IWYU pragma: export
#include "cohort/element.h"              // IWYU pragma: export
#include "cohort/error.h"                // IWYU pragma: export
#include "cohort/function.h"             // IWYU pragma: export
#include "cohort/gradient.h"             // IWYU pragma: export
#include "cohort/graph.h"                // IWYU pragma: export
#include "cohort/graph_variable.h"       // IWYU pragma: export
#include "cohort/metrics.h"              // IWYU pragma: export
#include "cohort/multi_worker.h"         // IWYU pragma: export
#include "cohort/native_function.h"      // IWYU pragma: export
#include "cohort/nn_layers.h"            // IWYU pragma: export
#include "cohort/nn_ops.h"               // IWYU pragma: export
#include "cohort/ops.h"                  // IWYU pragma: export
#include "cohort/optim.h"                // IWYU pragma: export
#include "cohort/parameter_server.h"     // IWYU pragma: export
#include "cohort/random.h"               // IWYU pragma: export
#include "cohort/readers.h"              // IWYU pragma: export
#include "cohort/server.h"               // IWYU pragma: export
#include "cohort/session.h"              // IWYU pragma: export
#include "cohort/shape.h"                // IWYU pragma: export
#include "cohort/sharded_variable.h"     // IWYU pragma: export
#include "cohort/strategy.h"             // IWYU pragma: export
#include "cohort/strategy_extended.h"    // IWYU pragma: export
#include "cohort/summary.h"              // IWYU pragma: export
#include "cohort/tensor.h"               // IWYU pragma: export
#include "cohort/trainer.h"              // IWYU pragma: export
#include "cohort/values.h"               // IWYU pragma: export
#include "cohort/variable.h"             // IWYU pragma: export
