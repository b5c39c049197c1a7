#include "conformance/op_example.h"
#include "ops/infer.h"

namespace cohort::testing {
namespace {

using Function1 = Tensor (*)(const Tensor&, Site);
using Function2 = Tensor (*)(const Tensor&, const Tensor&, Site);
using Torch1 = at::Tensor (*)(const at::Tensor&);
using Torch2 = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

Tensor matrix() { return Tensor({{0.3, 1.7, -2.2}, {-0.6, 0.9, 2.4}}); }
Tensor positive() { return Tensor({{0.3, 1.7, 2.2}, {0.6, 0.9, 2.4}}); }

OpExample unary(std::string_view op, Function1 function, Torch1 torch, const Tensor& input) {
  return {
      .op = op,
      .inputs = {input},
      .call = [=](std::span<const Tensor> in) { return Tensors{function(in[0], {})}; },
      .torch =
          [=](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{torch(in[0])}; },
      .more_inputs = {{zeros({0, 3}, kFloat64)}, {Tensor::from(std::vector<double>{0.7}, {})}},
      .bad_calls = {{[=] { function(Tensor("text"), {}); }, "input 0 is string"},
                    {[=] { function(Tensor(), {}); }, "holds nothing", Code::FailedPrecondition}}};
}

OpExample binary(std::string_view op, Function2 function, Torch2 torch, const Tensor& a,
                 const Tensor& b) {
  return {.op = op,
          .inputs = {a, b},
          .call = [=](std::span<const Tensor> in) { return Tensors{function(in[0], in[1], {})}; },
          .torch =
              [=](const std::vector<at::Tensor>& in) {
                return std::vector<at::Tensor>{torch(in[0], in[1])};
              },
          .more_inputs = {{positive(), Tensor({1.5, 2.5, 3.5})},
                          {Tensor::from(std::vector<double>{1.3}, {}), positive()},
                          {ones({2, 1, 3}, kFloat64) * 2.5, ones({4, 1}, kFloat64) * 1.5},
                          {zeros({0, 3}, kFloat64), Tensor({1.5, 2.5, 3.5})}},
          .bad_calls = {{[=] {
                           function(ones({2, 3}), ones({2, 4}), {});
                         },
                         "do not broadcast"},
                        {[=] {
                           function(ones({2}), Tensor({"a", "b"}), {});
                         },
                         "no common dtype"}}};
}

OpExample of_bools(std::string_view op, Function2 function, Torch2 torch) {
  OpExample example =
      binary(op, function, torch, Tensor({{true, false}, {true, true}}), Tensor({true, false}));
  example.more_inputs = {{Tensor(true), Tensor({false, true})}, {zeros({0}, kBool), Tensor(true)}};
  example.bad_calls = {{[=] {
                          function(ones({2}), Tensor({true, true}), {});
                        },
                        "must be one of bool"}};
  return example;
}

OpExample of_integers(std::string_view op, Function2 function, Torch2 torch) {
  OpExample example = binary(op, function, torch, Tensor({{6, -5}, {12, 7}}), Tensor({3, 10}));
  example.more_inputs = {{Tensor({6}), Tensor({{3}, {1}})},
                         {zeros({0}, kInt64), Tensor({int64_t{1}})}};
  example.bad_calls = {{[=] { function(ones({2}), ones({2}), {}); }, "input 0 is float32"}};
  return example;
}

std::vector<OpExample> unary_examples() {
  return {
      unary("Neg", neg, at::neg, matrix()),
      unary("Abs", abs, at::abs, matrix()),
      unary("Sign", sign, at::sgn, matrix()),
      unary("Square", square, at::square, matrix()),
      unary("Exp", exp, at::exp, matrix()),
      unary("Expm1", expm1, at::expm1, matrix()),
      unary("Log", log, at::log, positive()),
      unary("Log1p", log1p, at::log1p, positive()),
      unary("Sqrt", sqrt, at::sqrt, positive()),
      unary("Rsqrt", rsqrt, at::rsqrt, positive()),
      unary("Reciprocal", reciprocal, at::reciprocal, positive()),
      unary("Sin", sin, at::sin, matrix()),
      unary("Cos", cos, at::cos, matrix()),
      unary("Tanh", tanh, at::tanh, matrix()),
      unary("Sigmoid", sigmoid, at::sigmoid, matrix()),
      unary("Erf", erf, at::erf, matrix()),
      unary("Floor", floor, at::floor, matrix()),
      unary("Ceil", ceil, at::ceil, matrix()),
      unary("Round", round, at::round, matrix()),
      unary("IsNan", is_nan, at::isnan, Tensor({1.0, double{NAN}, double{INFINITY}})),
      unary("IsFinite", is_finite, at::isfinite, Tensor({1.0, double{NAN}, double{INFINITY}})),
      {.op = "LogicalNot",
       .inputs = {Tensor({true, false})},
       .call = [](std::span<const Tensor> in) { return Tensors{logical_not(in[0])}; },
       .torch =
           [](const std::vector<at::Tensor>& in) {
             return std::vector<at::Tensor>{at::logical_not(in[0])};
           },
       .bad_calls = {{[] { logical_not(Tensor({1.f})); }, "must be one of bool"}}},
      {.op = "BitwiseNot",
       .inputs = {Tensor({6, -5})},
       .call = [](std::span<const Tensor> in) { return Tensors{bitwise_not(in[0])}; },
       .torch =
           [](const std::vector<at::Tensor>& in) {
             return std::vector<at::Tensor>{at::bitwise_not(in[0])};
           },
       .bad_calls = {{[] { bitwise_not(Tensor({1.f})); }, "input 0 is float32"}}},
      {.op = "Cast",
       .inputs = {matrix()},
       .call = [](std::span<const Tensor> in) { return Tensors{cast(in[0], kFloat32)}; },
       .torch =
           [](const std::vector<at::Tensor>& in) {
             return std::vector<at::Tensor>{in[0].to(at::kFloat)};
           },
       .bad_calls = {{[] { cast(Tensor({1.f}), kString); }, "not numbers"},
                     {[] { cast(Tensor("text"), kFloat32); }, "input 0 is string"}},
       .shapes_only = true},
  };
}

std::vector<OpExample> binary_examples() {
  const Tensor other({{1.3, -0.8, 0.6}, {2.1, 1.4, -1.7}});
  return {
      binary(
          "Add", add, [](const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); },
          matrix(), other),
      binary(
          "Sub", sub, [](const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); },
          matrix(), other),
      binary(
          "Mul", mul, [](const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); },
          matrix(), other),
      binary(
          "Div", div, [](const at::Tensor& a, const at::Tensor& b) { return at::div(a, b); },
          matrix(), other),
      binary(
          "FloorDiv", floor_div,
          [](const at::Tensor& a, const at::Tensor& b) { return at::div(a, b, "floor"); },
          positive(), Tensor({{1.3, 1.8, 3.6}, {2.1, 1.4, 1.7}})),
      binary(
          "Mod", mod, [](const at::Tensor& a, const at::Tensor& b) { return at::remainder(a, b); },
          matrix(), Tensor({{1.3, 1.8, 3.6}, {2.1, 1.4, 1.7}})),
      binary(
          "Pow", pow, [](const at::Tensor& a, const at::Tensor& b) { return at::pow(a, b); },
          positive(), Tensor({{1.3, 1.8, 0.0}, {2.1, 1.4, 1.7}})),
      binary(
          "Minimum", minimum,
          [](const at::Tensor& a, const at::Tensor& b) { return at::minimum(a, b); }, matrix(),
          other),
      binary(
          "Maximum", maximum,
          [](const at::Tensor& a, const at::Tensor& b) { return at::maximum(a, b); }, matrix(),
          other),
  };
}

std::vector<OpExample> comparison_examples() {
  const Tensor other({{0.3, -0.8, 0.6}, {2.1, 1.4, 2.4}});
  return {
      binary(
          "Equal", equal, [](const at::Tensor& a, const at::Tensor& b) { return at::eq(a, b); },
          matrix(), other),
      binary(
          "NotEqual", not_equal,
          [](const at::Tensor& a, const at::Tensor& b) { return at::ne(a, b); }, matrix(), other),
      binary(
          "Less", less, [](const at::Tensor& a, const at::Tensor& b) { return at::lt(a, b); },
          matrix(), other),
      binary(
          "LessEqual", less_equal,
          [](const at::Tensor& a, const at::Tensor& b) { return at::le(a, b); }, matrix(), other),
      binary(
          "Less", greater, [](const at::Tensor& a, const at::Tensor& b) { return at::gt(a, b); },
          matrix(), other),
      binary(
          "LessEqual", greater_equal,
          [](const at::Tensor& a, const at::Tensor& b) { return at::ge(a, b); }, matrix(), other),
      of_bools("LogicalAnd", logical_and, at::logical_and),
      of_bools("LogicalOr", logical_or, at::logical_or),
      of_bools("LogicalXor", logical_xor, at::logical_xor),
      of_integers("BitwiseAnd", bitwise_and,
                  [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_and(a, b); }),
      of_integers("BitwiseOr", bitwise_or,
                  [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_or(a, b); }),
      of_integers("BitwiseXor", bitwise_xor,
                  [](const at::Tensor& a, const at::Tensor& b) { return at::bitwise_xor(a, b); }),
  };
}

OpExample where_example() {
  return {.op = "Where",
          .inputs = {Tensor({{true, false, true}, {false, true, true}}), matrix(),
                     Tensor({1.1, 2.2, 3.3})},
          .call = [](std::span<const Tensor> in) { return Tensors{where(in[0], in[1], in[2])}; },
          .torch =
              [](const std::vector<at::Tensor>& in) {
                return std::vector<at::Tensor>{at::where(in[0], in[1], in[2])};
              },
          .more_inputs = {{Tensor(true), Tensor({1.0}), Tensor({{2.0}, {3.0}})}},
          .bad_calls = {{[] { where(ones({2}), ones({2}), ones({2})); }, "condition must be bool"},
                        {[] {
                           where(Tensor({true, true}), ones({2}), ones({3}));
                         },
                         "broadcast"}}};
}

OpExample like(std::string_view op, Tensor (*function)(const Tensor&, const Tensor&),
               const Tensor& x, const Tensor& shaped) {
  return {.op = op, .inputs = {x, shaped}, .call = [=](std::span<const Tensor> in) {
            return Tensors{function(in[0], in[1])};
          }};
}

}  // namespace

std::vector<OpExample> elementwise_examples() {
  std::vector<OpExample> all = unary_examples();
  for (OpExample& example : binary_examples()) all.push_back(std::move(example));
  for (OpExample& example : comparison_examples()) all.push_back(std::move(example));
  all.push_back(where_example());
  all.push_back(like("SumLike", internal::sum_like, matrix(), Tensor({1.0, 1.0, 1.0})));
  all.push_back(like("BroadcastLike", internal::broadcast_like, Tensor({1.0, 2.0, 3.0}), matrix()));
  all.push_back(like("ReshapeLike", internal::reshape_like, matrix(), ones({3, 2}, kFloat64)));
  return all;
}

}  // namespace cohort::testing
