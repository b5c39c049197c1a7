#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cohort/graph.h"
#include "cohort/nn_layers.h"
#include "cohort/ops.h"
#include "cohort/variable.h"
#include "graph/serialize_graph.h"

// What the tests of the serialized form write and read.
namespace cohort::testing {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// Values of every dtype that can be serialized. Call it outside graphs.
inline NamedTensors sample_values() {
  return {{"float32", Tensor({{1.5f, -0.f}, {INFINITY, NAN}})},
          {"float16", cast(Tensor({1.5f, -2.f}), kFloat16)},
          {"bfloat16", cast(Tensor({1.5f, -2.f}), kBFloat16)},
          {"float64", Tensor({1.5, -2.})},
          {"int8", Tensor::from(std::vector<int8_t>{-128, 127})},
          {"int16", Tensor::from(std::vector<int16_t>{-5, 7})},
          {"int32", Tensor({1, 2, 3})},
          {"int64", Tensor({INT64_MIN, INT64_MAX})},
          {"uint8", Tensor::from(std::vector<uint8_t>{0, 255})},
          {"bool", Tensor({true, false})},
          {"string", Tensor::from(std::vector<std::string>{"", std::string("a\0b", 3), "\xff"})},
          {"empty", zeros({0, 3})},
          {"strided", transpose(Tensor({{1.f, 2.f}, {3.f, 4.f}}))},
          {"scalar", Tensor(2.5f)}};
}

// A bit of everything: scopes, devices, order, several outputs, attributes of every kind.
inline Graph sample_graph() {
  const NamedTensors values = sample_values();
  Graph graph;
  const auto building = graph.as_default();
  for (const auto& [name, value] : values) constant(value, name);
  const Tensor x = placeholder(kFloat32, {-1, 4}, "x");
  const Tensor any = placeholder(kFloat32, Shape::unknown(), "any");
  Tensor last;
  {
    const auto scope = name_scope("layer");
    const auto on = device("/job:worker/task:1/device:CPU:0");
    const std::vector<Tensor> parts = split(x, 2, 1);
    last = parts[1] * 2 + parts[0];
  }
  const auto together = colocate_with(x);
  const auto after = control_dependencies({last, any});
  const Tensor y = sum(transpose(last), 0, KeepDims::Yes);
  const Tensor z = slice(reshape(y, {1, -1}), {{.begin = 0, .end = 1}});
  nn::conv2d(placeholder(kFloat64, {1, 2, 8, 8}), placeholder(kFloat64, {4, 2, 3, 3}),
             {.padding = nn::PaddingMode::Same});
  nn::softmax(z);
  placeholder_with_default(Tensor({1.f, 2.f}), {-1}, "fallback");
  print(cast(z, kInt64), "label");
  group({z, y});
  return graph;
}

// y = x * variable, which becomes y: state, its order and a result. Call it outside graphs.
inline std::shared_ptr<const internal::GraphFunction> sample_function(Variable& variable) {
  const internal::Spec argument{kFloat32, {-1, 2}};
  return internal::trace("scale", {&argument, 1}, [&](std::span<const Tensor> in) {
    const Tensor y = in[0] * variable;
    variable.assign(sum(y, 0));
    return std::vector<Tensor>{y, variable + 1};
  });
}

// x (a placeholder of shape (2, 4)), c (a constant), s = Split(x), y = Add(s:1, s), z = Neg(y)
inline Graph small_graph() {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {2, 4}, "x");
  constant(Tensor({1.f, 2.f}), "c");
  const std::vector<Tensor> parts = split(x, 2, 1);
  neg(parts[1] + parts[0]);
  return graph;
}

// cond inside cond, `depth` deep.
inline Tensor nested(const Tensor& x, int depth) {
  if (depth == 0) return x * 2;
  return cond(
      sum(x) > 0, [&] { return nested(x, depth - 1); }, [&] { return x; });
}

inline Graph graph_of_depth(int depth) {
  Graph graph;
  const auto building = graph.as_default();
  nested(placeholder(kFloat32, {2}, "x"), depth);
  return graph;
}

}  // namespace cohort::testing
