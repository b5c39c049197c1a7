#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "graph/fold_constants.h"
#include "runtime/executor.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Tensors = std::vector<Tensor>;

// How many steps a run of these fetches takes, by op.
std::map<std::string, int> steps(const Graph& graph, const Tensors& fetches, const Feeds& feeds) {
  Session session(graph);
  RunMetadata metadata;
  session.run(fetches, feeds, {.trace = true}, &metadata);
  std::map<std::string, int> count;
  for (const NodeTiming& node : metadata.nodes) ++count[node.op];
  return count;
}

std::shared_ptr<const GraphFunction> traced(const Specs& arguments, const FunctionBody& body) {
  return trace("f", arguments, body);
}

TEST(Fold, ComputesOnceWhatDependsOnConstantsAlone) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {2, 2});
  const Tensor scale = matmul(ones({2, 3}), ones({3, 2})) + 1.f;
  const Tensor y = x * scale;
  EXPECT_EQ(steps(graph, {y}, {{x, Tensor({{1.f, 2.f}, {3.f, 4.f}})}}),
            (std::map<std::string, int>{{"Const", 1}, {"Mul", 1}}));
  Session session;
  EXPECT_EQ(session.run(y, {{x, Tensor({{1.f, 2.f}, {3.f, 4.f}})}}).to_vector<float>(),
            (std::vector<float>{4, 8, 12, 16}));
}

TEST(Fold, KeepsOneOfNodesThatComputeTheSame) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor a = exp(x * 2.f);
  const Tensor b = exp(x * 2.f);
  const Tensor other = exp(x * 3.f);
  const Tensor y = a + b;
  const Tensor value(0.5f);
  EXPECT_EQ(steps(graph, {y, b, other}, {{x, value}}),
            (std::map<std::string, int>{{"Add", 1}, {"Const", 2}, {"Exp", 2}, {"Mul", 2}}));
  Session session;
  const Tensors values = session.run({y, a, b, other}, {{x, value}});
  EXPECT_EQ(values[1].to<float>(), values[2].to<float>());
  EXPECT_EQ(values[0].to<float>(), 2 * values[1].to<float>());
  EXPECT_NE(values[3].to<float>(), values[1].to<float>());
}

TEST(Fold, TellsZerosApart) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  Session session;
  const Tensors values = session.run({x / 0.f, x / -0.f}, {{x, Tensor(1.f)}});
  EXPECT_GT(values[0].to<float>(), 0.f);
  EXPECT_LT(values[1].to<float>(), 0.f);
}

TEST(Fold, LeavesStateRandomnessAndPrintingAlone) {
  Graph graph;
  auto building = graph.as_default();
  Variable w(1.f, {.name = "w"});
  const Tensor init = global_variables_initializer();
  const Tensor one = w.assign_add(1.f);
  const Tensor two = w.assign_add(1.f);
  random::Generator same(3);
  const Tensor drawn = same.uniform({2});
  const Tensor printed = print(constant(1.f), "folding_test");
  Session session;
  session.run(init);
  RunMetadata metadata;
  session.run({one, two, drawn, printed}, {}, {.trace = true}, &metadata);
  std::map<std::string, int> count;
  for (const NodeTiming& node : metadata.nodes) ++count[node.op];
  EXPECT_EQ(count["AssignAddVariable"], 2);
  EXPECT_EQ(count["RandomUniform"], 1);
  EXPECT_EQ(count["Print"], 1);
  EXPECT_EQ(session.run(w.read_value()).to<float>(), 3.f);
}

TEST(Fold, DoesNotMergePlaceholders) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = placeholder(kFloat32, {});
  Session session;
  EXPECT_EQ(session.run(x - y, {{x, Tensor(5.f)}, {y, Tensor(3.f)}}).to<float>(), 2.f);
}

TEST(Fold, UsesWhatIsFedInsteadOfWhatIsConstant) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor a = constant(2.f) * 3.f;
  const Tensor b = constant(2.f) * 3.f;
  const Tensor y = a * 10.f + b;
  Session session;
  EXPECT_EQ(session.run(y).to<float>(), 66.f);
  EXPECT_EQ(session.run(y, {{a, Tensor(1.f)}}).to<float>(), 16.f);
  const Tensors both = session.run({a, b, y}, {{a, Tensor(1.f)}});
  EXPECT_EQ(both[0].to<float>(), 1.f);
  EXPECT_EQ(both[1].to<float>(), 6.f);
  EXPECT_EQ(both[2].to<float>(), 16.f);
}

TEST(Fold, KeepsWhatMustRunBefore) {
  Graph graph;
  auto building = graph.as_default();
  Variable w(1.f, {.name = "w"});
  const Tensor init = global_variables_initializer();
  const Tensor bump = w.assign_add(1.f);
  Tensor waits;
  {
    const auto after = control_dependencies({bump});
    waits = constant(2.f) + 3.f;
  }
  const Tensor y = waits * 2.f;
  Session session;
  session.run(init);
  EXPECT_EQ(session.run(y).to<float>(), 10.f);
  EXPECT_EQ(session.run(w.read_value()).to<float>(), 2.f);
}

TEST(Fold, LeavesLargeResultsToTheRun) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor small = zeros({1 << 18});
  const Tensor large = zeros({(1 << 18) + 1});
  EXPECT_EQ(steps(graph, {small, large}, {}),
            (std::map<std::string, int>{{"Const", 1}, {"Zeros", 1}}));
}

TEST(Fold, LeavesFailuresToTheRunWithTheNodesName) {
  Graph graph;
  auto building = graph.as_default();
  const auto scope = name_scope("layer");
  const Tensor bad = check_numerics(log(constant(-1.f)), "log");
  Session session;
  EXPECT_ERROR(Code::InvalidArgument, "node 'layer/CheckNumerics'", session.run(bad));
}

TEST(Fold, ShrinksFunctions) {
  const auto function = traced({{kFloat32, {2}}, {kFloat32, {2}}}, [](std::span<const Tensor> in) {
    const Tensor scale = exp(zeros({2})) + 1.f;
    return Tensors{in[0] * scale + in[0] * scale};
  });
  EXPECT_EQ(plan_of(*function).steps.size(), 3u);  // the constant, Mul, Add
  const auto same = cohort::function([](Tensor x) {
    const Tensor scale = exp(zeros({2})) + 1.f;
    return x * scale + x * scale;
  });
  EXPECT_EQ(same(Tensor({1.f, 2.f})).to_vector<float>(), (std::vector<float>{4, 8}));
}

TEST(Fold, ReturnsAGraphThatHasNothingToFoldAsItIs) {
  const auto function =
      traced({{kFloat32, {2}}}, [](std::span<const Tensor> in) { return Tensors{exp(in[0])}; });
  const RunRequest request{.feeds = function->arguments, .fetches = function->results};
  EXPECT_EQ(fold(function->body, request).graph, function->body);
}

TEST(Fold, TakesTimeInProportionToTheGraph) {
  const auto function = traced({{kFloat32, {}}}, [](std::span<const Tensor> in) {
    Tensor y = in[0];
    for (int i = 0; i < 5000; ++i) y = y + static_cast<float>(i);
    return Tensors{y, y * 1.f, y * 1.f};
  });
  EXPECT_EQ(plan_of(*function).steps.size(), 2u * 5000 + 1);
}

}  // namespace
}  // namespace cohort::internal
