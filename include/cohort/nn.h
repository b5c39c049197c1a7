#pragma once

// Neural networks: functions (nn_ops.h), and layers with variables (nn_layers.h).

#include "cohort/nn_layers.h"  // IWYU pragma: export
#include "cohort/nn_ops.h"     // IWYU pragma: export
