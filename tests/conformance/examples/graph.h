#pragma once

#include "cohort/graph.h"
#include "conformance/op_example.h"
#include "ops/op.h"

// What the examples of the ops of graphs share.
namespace cohort::testing {

using internal::Attrs;
using In = std::span<const Tensor>;

Tensors apply_op(std::string_view op, const Tensors& inputs, const Attrs& attrs);

// A call whose inputs are its own.
OpExample calling(std::string_view op, OpFunction call, std::vector<BadCall> bad_calls = {});
// A node that has a value in a run only: it is just added to a graph; tests of sessions run it.
OpExample adding(std::string_view op, const Tensors& inputs, const Attrs& attrs,
                 std::vector<BadCall> bad_calls = {});
BadCall bad(std::string_view op, const Tensors& inputs, const Attrs& attrs,
            std::string_view fragment, Code code = Code::InvalidArgument);

std::vector<OpExample> iterator_examples();
std::vector<OpExample> queue_examples();
std::vector<OpExample> accumulator_examples();
std::vector<OpExample> shard_examples();

}  // namespace cohort::testing
