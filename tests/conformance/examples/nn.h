#pragma once

#include "cohort/nn_ops.h"
#include "conformance/op_example.h"
#include "ops/op.h"
#include "support/find_op.h"
#include "tensor/aten.h"

// What the examples of neural networks share.
namespace cohort::testing {

using internal::Attrs;
using Inputs = std::span<const Tensor>;
using TorchInputs = std::vector<at::Tensor>;
using Torch1 = std::function<at::Tensor(const at::Tensor&)>;

// Values between -2 and 2, all different, none near 0.
inline Tensor values(const Shape& shape, double phase = 0) {
  const at::Tensor wave =
      at::arange(shape.num_elements(), at::kDouble).mul(0.73).add(0.4 + phase).sin().mul(1.9);
  return internal::from_aten(wave.reshape(at::IntArrayRef(shape.begin(), shape.end())));
}

// Runs an op that has no public function.
inline Tensor run(std::string_view op, std::initializer_list<Tensor> inputs, Attrs attrs = {}) {
  return internal::apply(internal::find_op(op), inputs, std::move(attrs));
}
inline Tensors run_many(std::string_view op, const Tensors& inputs, Attrs attrs = {}) {
  return internal::apply_many(internal::find_op(op), inputs, std::move(attrs), {});
}

inline BadCall bad(std::function<void()> call, std::string_view fragment) {
  return {std::move(call), fragment};
}

std::vector<OpExample> nn_image_examples();  // convolution and pooling
std::vector<OpExample> nn_norm_examples();   // normalisation and dropout

}  // namespace cohort::testing
