// The ops on shapes, in graphs: with sizes unknown until the graph runs, values and gradients are
// those of the same ops run at once.

#include <gtest/gtest.h>

#include "cohort/error.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "cohort/session.h"

namespace cohort {
namespace {

using Function = Tensor (*)(const Tensor&);

Tensor cube() { return reshape(range(0.0, 24.0, 1.0, kFloat64) * 0.25 - 2.0, {2, 3, 4}); }

// sum(f(x)^2) has a gradient that depends on where each value went.
Tensor gradient_at(const Tensor& x, Function f) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(sum(square(f(x))), x);
}

// f and its gradient, built on a symbol of shape `known` and run on cube().
void expect_same_in_graph(Function f, const Shape& known) {
  const Tensor value = cube();
  const Tensor expected = f(value);
  const std::vector<double> slope = gradient_at(value, f).to_vector<double>();
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat64, known);
  const Tensor y = f(x);
  ASSERT_TRUE(y.is_symbolic());
  EXPECT_TRUE(y.shape().is_compatible_with(expected.shape()));
  const Tensor gradient = gradient_at(x, f);
  ASSERT_TRUE(gradient.is_symbolic());
  Session session;
  EXPECT_EQ(session.run(y, {{x, value}}).to_vector<double>(), expected.to_vector<double>());
  EXPECT_EQ(session.run(gradient, {{x, value}}).to_vector<double>(), slope);
}

struct Case {
  const char* name;
  Function function;
};

class ShapeOpInAGraph : public ::testing::TestWithParam<Case> {};

TEST_P(ShapeOpInAGraph, RunsWithUnknownSizes) {
  expect_same_in_graph(GetParam().function, {-1, -1, -1});
}

TEST_P(ShapeOpInAGraph, RunsWithSomeKnownSizes) {
  expect_same_in_graph(GetParam().function, {-1, 3, -1});
}

TEST_P(ShapeOpInAGraph, RunsWithAnUnknownRank) {
  expect_same_in_graph(GetParam().function, Shape::unknown());
}

Tensor rows() { return Tensor({1, 0, 1}); }

const Case kCases[] = {
    {"Reshape",
     [](const Tensor& x) {
       return reshape(x, {4, -1});
     }},
    {"Transpose", [](const Tensor& x) { return transpose(x); }},
    {"Permute",
     [](const Tensor& x) {
       return transpose(x, {1, -1, 0});
     }},
    {"ExpandDims", [](const Tensor& x) { return expand_dims(x, 1); }},
    {"Squeeze", [](const Tensor& x) { return squeeze(expand_dims(x, 0)); }},
    {"Concat",
     [](const Tensor& x) {
       return concat({x, x * 2, x}, 1);
     }},
    {"Stack",
     [](const Tensor& x) {
       return stack({x, x * 2}, -1);
     }},
    {"Split", [](const Tensor& x) { return split(x, 2, -1)[1]; }},
    {"SplitSizes",
     [](const Tensor& x) {
       return split(x, {1, -1}, -1)[1];
     }},
    {"Slice",
     [](const Tensor& x) {
       return slice(x, {{}, {.begin = -2}, {.step = -2}});
     }},
    {"Index", [](const Tensor& x) { return x[-1]; }},
    {"Pad",
     [](const Tensor& x) {
       return pad(x, {{1, 0}, {0, 2}, {1, 1}}, 3);
     }},
    {"Tile",
     [](const Tensor& x) {
       return tile(x, {1, 2, 3});
     }},
    {"BroadcastTo",
     [](const Tensor& x) {
       return broadcast_to(x, {2, 2, 3, 4});
     }},
    {"GatherRows", [](const Tensor& x) { return gather(x, rows()); }},
    {"GatherColumns", [](const Tensor& x) { return gather(x, rows(), -1); }},
    {"Scatter",
     [](const Tensor& x) {
       return scatter(Tensor({3, 3}), x, {5, 3, 4});
     }},
    {"SizeAsAFactor", [](const Tensor& x) { return x / cast(size(x), kFloat64); }},
    {"ZerosLike", [](const Tensor& x) { return x + zeros_like(x) + fill_like(x, 2); }},
    {"TopK", [](const Tensor& x) { return top_k(sin(x), 2).values; }},
    {"Sort", [](const Tensor& x) { return sort(sin(x), 1); }},
};

INSTANTIATE_TEST_SUITE_P(All, ShapeOpInAGraph, ::testing::ValuesIn(kCases),
                         [](const auto& param_info) { return param_info.param.name; });

TEST(ShapeOpsInAGraph, GatherOfAKnownTableHasRowsAsGradient) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor table = placeholder(kFloat64, {5, 2});
  const Tensor indices = placeholder(kInt32, {-1});
  GradientTape tape;
  tape.watch(table);
  const Gradient gradient = tape.gradient(sum(gather(table, indices)), table);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.slices().values.shape(), Shape({-1, 2}));
  EXPECT_EQ(gradient.slices().indices.dtype(), kInt64);
}

TEST(ShapeOpsInAGraph, UnstackNeedsAKnownSize) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 2});
  try {
    unstack(x);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
    EXPECT_NE(error.message().find("must be known"), std::string::npos);
  }
  EXPECT_EQ(unstack(x, 1).size(), 2u);
}

TEST(ShapeOpsInAGraph, CreatingOpsBecomeNodesOfTheGraphBeingBuilt) {
  Graph graph;
  auto building = graph.as_default();
  const std::vector<Tensor> made{zeros({2}), ones({2}),         fill({2}, 1.f), range(3),
                                 eye(2),     linspace(0, 1, 2), zeros({0})};
  for (const Tensor& tensor : made) EXPECT_TRUE(tensor.is_symbolic());
  EXPECT_GE(graph.size(), made.size());
  Session session;
  EXPECT_EQ(session.run(made[3]).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
}

TEST(ShapeOpsInAGraph, ShapeIsKnownWhenItRuns) {
  const Tensor value = ones({4, 2});
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32);
  Session session;
  EXPECT_EQ(session.run(shape(x), {{x, value}}).to_vector<int64_t>(), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(session.run(rank(x), {{x, value}}).to<int>(), 2);
}

}  // namespace
}  // namespace cohort
