#pragma once

#include <string_view>

#include "cohort/nn_layers.h"

// What the layers have in common. `layer` is a layer's name, for messages.
namespace cohort::internal {

// Throws InvalidArgument unless `size`, described by `what`, is at least 1.
void require_positive(std::string_view layer, std::string_view what, int64_t size);

// A variable of that name, initialised when it is made.
Variable make_variable(std::string name, const nn::Initializer& initializer, const Shape& shape,
                       DType dtype);
// One that moves with what a layer sees: not trained, and averaged over replicas when read.
Variable make_statistic(std::string name, const nn::Initializer& initializer, const Shape& shape,
                        DType dtype);

// Throws InvalidArgument unless dimension `axis` of x, where known, has `size`.
void require_size(std::string_view layer, const Tensor& x, int axis, int64_t size,
                  std::string_view what);

}  // namespace cohort::internal
