#pragma once

#include <vector>

#include "ops/op.h"

// What the ops' infer functions (and a few gradients) have in common. `op` is the op's name, for
// the message. The checks throw InvalidArgument.
namespace cohort::internal {

// numpy's broadcasting; an unknown size against 1 or another unknown one stays unknown.
Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b);

// The axis as 0 <= axis < rank.
int normalize_axis(std::string_view op, int64_t axis, int rank);
// Each as above; throws InvalidArgument when one comes twice.
std::vector<int64_t> normalize_axes(std::string_view op, std::span<const int64_t> axes, int rank);

void require_rank(std::string_view op, const Shape& shape, int rank, std::string_view what);
void require_rank_at_least(std::string_view op, const Shape& shape, int rank,
                           std::string_view what);
void require_same_dtype(const OpInputs& inputs);
// `shape` has no more bytes than a tensor may: checked before memory is taken.
void require_allocatable(std::string_view op, const Shape& shape, DType dtype);

// Every size is known, and a tensor of that shape has no more bytes than a tensor may.
void require_creatable(std::string_view op, const Shape& shape, DType dtype);
// The shapes may be equal; unknown sizes may be anything.
void require_compatible(std::string_view op, const Shape& found, const Shape& expected,
                        std::string_view what);
// Input 0 is a handle; `whose` says of what: "a queue's".
void require_handle(const OpInputs& inputs, std::string_view whose);
// Input `i` has an integer dtype.
void require_integers(const OpInputs& inputs, size_t i, std::string_view what);
// A tensor of `rank` dimensions exists.
void require_possible_rank(std::string_view op, int rank);
// The number of dimensions, which a gradient needs to know.
int known_rank(std::string_view op, const Tensor& x);
// `dtype` holds `value`: integers hold whole numbers in their range, bool holds 0 and 1.
void require_representable(std::string_view op, double value, DType dtype);
// `size` is not negative.
void require_size(std::string_view op, int64_t size, std::string_view what);

// Number of elements of a fully known shape.
int64_t checked_count(std::string_view op, const Shape& shape);
// a + b and a * b of sizes.
int64_t checked_add(std::string_view op, int64_t a, int64_t b);
int64_t checked_multiply(std::string_view op, int64_t a, int64_t b);

// What the shapes of inputs i and j say together; throws InvalidArgument when they differ.
Shape require_same_shape(const OpInputs& inputs, size_t i, size_t j);
// Input i, described by `what`, must be a vector with one element per channel.
void require_channel_vector(const OpInputs& inputs, size_t i, int64_t channels,
                            std::string_view what);
// A kernel that loops over memory itself must see the sizes that `infer` was promised, also when a
// graph knew them only in part. Throws InvalidArgument unless `expected` == `found`.
void require_count(std::string_view op, int64_t expected, int64_t found);

// What an OpDef is made of.
using Infer = Specs (*)(const OpInputs&);
using Compute = void (*)(Kernel&);
using GradientOf = Gradients (*)(const OpCall&, Grads);

// Common infer functions.
Specs infer_same(const OpInputs& inputs);       // output like input 0
Specs infer_broadcast(const OpInputs& inputs);  // broadcast of inputs 0 and 1, same dtype
Specs infer_alike(const OpInputs& inputs);      // inputs 0 and 1, and the output, are alike
// What the attributes kDeclaredAttrs say.
Specs infer_declared(const OpInputs& inputs);

// An op that computes the gradient of an op with one input: from the gradient of the output and
// that input. kOutputShape gives the shape of the output for the shape of the input.
template <Shape (*kOutputShape)(const OpInputs& inputs, const Shape& input)>
constexpr OpDef input_gradient_op(std::string_view name, const AttrList& attrs, Compute compute,
                                  GradientOf gradient) {
  return {.name = name,
          .inputs = 2,
          .dtypes = kFloatTypes,
          .attrs = attrs,
          .infer = [](const OpInputs& inputs) -> Specs {
            require_compatible(inputs.op, inputs.shape(0), kOutputShape(inputs, inputs.shape(1)),
                               "the gradient");
            return {{inputs.dtype(0), inputs.shape(1)}};
          },
          .compute = compute,
          .gradient = gradient,
          .traits = Trait::OneDType};
}

// The gradient of a step function: no input has an influence, wherever there is a slope at all.
Gradients no_influence(const OpCall& call, std::span<const Tensor> output_gradients);

// The gradient of an op whose result does not depend on the values of its one input.
Gradients no_slope(const OpCall& call, Grads g);
// The gradient that the op kGrad computes from the gradient of the output and the input, or the
// output, of an op with the same attributes.
template <const OpDef& kGrad>
Gradients by_input(const OpCall& call, Grads g) {
  return {apply(kGrad, {g[0], call.inputs[0]}, call.attrs)};
}
template <const OpDef& kGrad>
Gradients by_output(const OpCall& call, Grads g) {
  return {apply(kGrad, {g[0], call.outputs[0]}, call.attrs)};
}

// Gradients often need "what I have, in the shape of that": ops that take the shape from a tensor,
// so that they also work in graphs where it is not known yet.

// `x` summed over the dimensions along which `like` was broadcast to get x's shape.
Tensor sum_like(const Tensor& x, const Tensor& like);
// `x`, as broadcast to the shape of `like`.
Tensor broadcast_like(const Tensor& x, const Tensor& like);
// `x` with the elements in the shape of `like`.
Tensor reshape_like(const Tensor& x, const Tensor& like);

// `x`; throws InvalidArgument with `text` unless `holds`, a boolean scalar, is true. In a graph
// that is found out when it runs.
Tensor require_true(const Tensor& x, const Tensor& holds, const std::string& text);

}  // namespace cohort::internal
