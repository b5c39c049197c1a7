#pragma once

#include "ops/kernel.h"
#include "ops/widen.h"

// What the ops of neural networks have in common.
namespace cohort::internal {

// Sets output i to what was computed from widened inputs, in the dtype of input 0.
inline void set_narrowed(Kernel& kernel, at::Tensor value, size_t i = 0) {
  set(kernel, narrowed(std::move(value), in(kernel, 0)), i);
}

// What the shapes of inputs i and j say together; throws InvalidArgument when they differ.
Shape require_same_shape(const OpInputs& inputs, size_t i, size_t j);
// Input i, described by `what`, must be a vector with one element per channel.
void require_channel_vector(const OpInputs& inputs, size_t i, int64_t channels,
                            std::string_view what);
// A kernel that loops over memory itself must see the sizes that `infer` was promised, also when a
// graph knew them only in part. Throws InvalidArgument unless `expected` == `found`.
void require_count(std::string_view op, int64_t expected, int64_t found);

}  // namespace cohort::internal
