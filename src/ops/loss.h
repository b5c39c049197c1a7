#pragma once

#include "cohort/nn_ops.h"

namespace cohort::internal {

// One loss, or all of them, out of many. `op` is the loss function's name, for messages.
Tensor reduce_loss(std::string_view op, const Tensor& losses, const nn::LossOptions& options,
                   Site site);

}  // namespace cohort::internal
