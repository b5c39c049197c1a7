// Examples of the random ops. Their inputs are a key; values are tested beside the ops.

#include "cohort/random.h"

#include "conformance/op_example.h"
#include "ops/op.h"
#include "support/find_op.h"

namespace cohort::testing {
namespace {

using In = std::span<const Tensor>;

Tensor key() { return Tensor({int64_t{7}, int64_t{0}}); }

internal::Attrs drawing(DType dtype, internal::Attrs::Entry first, internal::Attrs::Entry second) {
  return {{"shape", Shape{2, 3}}, {"dtype", dtype}, std::move(first), std::move(second)};
}

OpExample example_of(std::string_view op, const internal::Attrs& attrs,
                     std::vector<BadCall> bad_calls) {
  return {.op = op,
          .inputs = {key()},
          .call = [op, attrs](In x) -> Tensors {
            return {internal::apply(internal::find_op(op), {x[0]}, attrs)};
          },
          .bad_calls = std::move(bad_calls),
          .shapes_only = true};
}

}  // namespace

std::vector<OpExample> random_examples() {
  return {
      example_of("RandomUniform", drawing(kFloat32, {"low", 0.0}, {"high", 1.0}),
                 {{[] { random::uniform({2}, {.low = 1, .high = 0}); }, "low < high"},
                  {[] { random::uniform({-1}); }, "every size must be 0 or more"},
                  {[] { random::uniform({2}, {.dtype = kInt32}); }, "not int32"}}),
      example_of("RandomNormal", drawing(kFloat64, {"mean", 0.0}, {"stddev", 1.0}),
                 {{[] { random::normal({2}, {.stddev = -1}); }, "stddev -1"}}),
      example_of("RandomTruncatedNormal", drawing(kFloat16, {"mean", 0.0}, {"stddev", 1.0}),
                 {{[] { random::truncated_normal({2}, {.stddev = -1}); }, "stddev -1"}}),
      example_of("RandomInt", drawing(kInt8, {"low", int64_t{0}}, {"high", int64_t{9}}),
                 {{[] { random::randint({2}, 3, 3); }, "low 3 and high 3"},
                  {[] { random::randint({2}, 0, 300, kUInt8); }, "does not hold"}}),
      {.op = "RandomKey",
       .inputs = {},
       .call = [](In) -> Tensors {
         return {internal::apply(
             internal::find_op("RandomKey"), {},
             {{"seed", int64_t{7}}, {"counter", int64_t{3}}, {"call", int64_t{0}}})};
       },
       .shapes_only = true},
      {.op = "RandomPermutation",
       .inputs = {key(), Tensor({1.0, 2.0, 3.0})},
       .call = [](In x) -> Tensors {
         return {internal::apply(internal::find_op("RandomPermutation"), {x[0], x[1]})};
       },
       .bad_calls = {{[] { random::shuffle(Tensor(1.0)); }, "at least 1 dimension"}},
       .shapes_only = true},
  };
}

}  // namespace cohort::testing
