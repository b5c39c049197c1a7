#pragma once

#include <vector>

#include "ops/op.h"

// What the ops' infer functions (and a few gradients) have in common. `op` is the op's name, for
// the message.
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
// Throws InvalidArgument when `shape` has more bytes than a tensor may: before memory is taken.
void require_allocatable(std::string_view op, const Shape& shape, DType dtype);

// Common infer functions.
Specs infer_same(const OpInputs& inputs);               // output like input 0
Specs infer_broadcast(const OpInputs& inputs);          // broadcast of inputs 0 and 1, same dtype
Specs infer_broadcast_to_bool(const OpInputs& inputs);  // the same with bool out

// The gradient of a step function: no input has an influence, wherever there is a slope at all.
Gradients no_influence(const OpCall& call, std::span<const Tensor> output_gradients);

}  // namespace cohort::internal
