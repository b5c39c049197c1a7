#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/error.h"
#include "cohort/ops.h"

namespace cohort::testing {

using Tensors = std::vector<Tensor>;
using OpFunction = std::function<Tensors(std::span<const Tensor>)>;
using TorchFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// A call that must throw InvalidArgument (or `code`) with `fragment` in its message.
struct BadCall {
  std::function<void()> call;
  std::string_view fragment;
  Code code = Code::InvalidArgument;
};

// One op as the conformance suite sees it. From it follow: inferred = actual shape and dtype (also
// with sizes hidden), gradient = finite differences = torch's autograd, every dtype that the op
// claims, empty and 0-d inputs, and the errors.
struct OpExample {
  std::string_view op;  // OpDef::name; `call` must run that op
  // Well-conditioned inputs; floating ones in float64, away from kinks and ties.
  Tensors inputs;
  OpFunction call;  // through the public function
  // The same with torch, for values and gradients; empty where torch has no such op.
  TorchFunction torch = {};
  // Further inputs (empty, 0-d, broadcasting, other ranks): shapes are checked, and values against
  // torch.
  std::vector<Tensors> more_inputs = {};
  std::vector<BadCall> bad_calls = {};
  // Inputs that follow when the suite converts the example to another dtype; empty = all floating
  // ones.
  std::vector<size_t> typed_inputs = {};
  // The op is not a function of its inputs' values alone (random, printing), so values and
  // gradients are tested elsewhere.
  bool shapes_only = false;
  // The op says how many outputs it has only when it knows its input's sizes.
  bool needs_sizes = false;
};

// Each file of examples/ has one of these; op_conformance_test.cc lists them.
std::vector<OpExample> elementwise_examples();
std::vector<OpExample> graph_examples();
std::vector<OpExample> nn_examples();
std::vector<OpExample> random_examples();
std::vector<OpExample> reduce_examples();
std::vector<OpExample> replica_examples();
std::vector<OpExample> shape_examples();
std::vector<OpExample> state_examples();

}  // namespace cohort::testing
