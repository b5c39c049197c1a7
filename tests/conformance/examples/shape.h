#pragma once

#include <ATen/ATen.h>

#include "conformance/op_example.h"
#include "ops/op.h"

// What the examples of the ops on shapes share.
namespace cohort::testing {

using In = std::span<const Tensor>;
using TorchIn = const std::vector<at::Tensor>&;
using TorchOut = std::vector<at::Tensor>;

// Different values in any shape, no two of them equal.
Tensor numbers(const Shape& shape);

// An example of an op with one output.
OpExample one_output(std::string_view op, Tensors inputs, std::function<Tensor(In)> call,
                     std::function<at::Tensor(TorchIn)> torch, std::vector<BadCall> bad_calls,
                     std::vector<Tensors> more_inputs = {});

// Calls an op that no public function calls by itself.
Tensor run(std::string_view op, In in, internal::Attrs attrs);

std::vector<OpExample> view_examples();
std::vector<OpExample> joining_examples();
std::vector<OpExample> row_examples();
std::vector<OpExample> creating_examples();
std::vector<OpExample> ordering_examples();

}  // namespace cohort::testing
