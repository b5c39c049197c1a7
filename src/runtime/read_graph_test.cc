// A graph that was serialized and read is as good as the one that was built.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

// -(w x + b) with a global step, as bytes.
std::string serialized_model() {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {2}, "x");
  const NameScope layer("layer");
  Variable w = get_variable("w", {.shape = {2}, .initializer = nn::ones()});
  Variable b = get_variable("b", {.shape = {}, .initializer = nn::zeros(), .trainable = false});
  global_step();
  neg(sum(w * x) + b);
  return graph.serialize();
}

TEST(ReadGraph, HasItsVariables) {
  Graph graph = Graph::deserialize(serialized_model());
  auto building = graph.as_default();
  std::vector<std::string> names;
  for (const Variable& variable : global_variables()) names.push_back(variable.name());
  EXPECT_EQ(names, (std::vector<std::string>{"layer/w", "layer/b", "global_step"}));
  ASSERT_EQ(trainable_variables().size(), 1u);
  EXPECT_EQ(trainable_variables()[0].shape(), Shape{2});
  EXPECT_EQ(trainable_variables()[0].dtype(), kFloat32);
}

TEST(ReadGraph, InitializesRunsAndTrains) {
  Graph graph = Graph::deserialize(serialized_model());
  auto building = graph.as_default();
  const Tensor y = graph.tensor("layer/Neg");
  Variable w = trainable_variables()[0];
  const Tensor step = global_step().assign_add(Tensor(int64_t{1}));
  const Tensor train = optim::Sgd({.learning_rate = 1.0}).minimize(y, {w});
  Session session;
  session.run(global_variables_initializer());
  const Feeds feeds{{graph.tensor("x"), Tensor({1.f, 2.f})}};
  EXPECT_EQ(session.run(y, feeds).to<float>(), -3.f);
  session.run(train, feeds);
  EXPECT_EQ(session.run(y, feeds).to<float>(), -8.f);
  EXPECT_EQ(session.run(step).to<int64_t>(), 1);
}

TEST(ReadGraph, ReusesVariablesByName) {
  Graph graph = Graph::deserialize(serialized_model());
  auto building = graph.as_default();
  EXPECT_EQ(get_variable("layer/w", {.shape = {2}, .reuse = Reuse::Yes}).name(), "layer/w");
  EXPECT_EQ(global_step().name(), "global_step");
  EXPECT_EQ(global_variables().size(), 3u);
  EXPECT_ERROR(Code::AlreadyExists, "layer/w", get_variable("layer/w", {.shape = {2}}));
}

TEST(ReadGraph, RoundTripIsExact) {
  const std::string bytes = serialized_model();
  EXPECT_EQ(Graph::deserialize(bytes).serialize(), bytes);
  Graph read = Graph::deserialize(bytes);
  {
    auto building = read.as_default();
    global_variables();  // makes the handles
  }
  EXPECT_EQ(read.serialize(), bytes);
}

}  // namespace
}  // namespace cohort
