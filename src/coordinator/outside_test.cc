// What a ParameterServerStrategy does outside scheduled functions: the chief computes, the
// variables stay on their servers.

#include <gtest/gtest.h>

#include "support/coordinated_cluster.h"

namespace cohort {
namespace {

// With 1 and 2 replicas, in asynchronous and in synchronous training.
class OutsideOfScheduledFunctions : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static std::vector<std::string> devices(int replicas) {
    std::vector<std::string> names;
    for (int i = 0; i < replicas; ++i) names.push_back("CPU:" + std::to_string(i));
    return names;
  }

  Variable make(const VariableOptions& options = {}) {
    return strategy.create([&] { return Variable({1.f, 2.f}, options); });
  }
  static std::vector<float> numbers(const Tensor& value) { return value.to_vector<float>(); }

  const int replicas = std::get<0>(GetParam());
  test::CoordinatedCluster here{
      2, 1, {.devices = devices(replicas), .sync = std::get<1>(GetParam())}};
  ParameterServerStrategy& strategy = here.strategy;
};

TEST_P(OutsideOfScheduledFunctions, OptimizersWithSlotsTrainAModel) {
  random::set_seed(1);
  const auto scope = strategy.scope();
  nn::Dense model(2, 1);
  optim::Adam optimizer({.learning_rate = 0.1});
  const Tensor x({{1.f, 0.f}, {0.f, 1.f}});
  const Tensor y({{1.f}, {-1.f}});
  const auto step = [&](Tensor input, Tensor wanted) {
    GradientTape tape;
    const Tensor loss = mean(square(model(input) - wanted)) / float(replicas);
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  };
  float last = 0;
  for (int i = 0; i < 60; ++i) {
    last = strategy.reduce(ReduceOp::Sum, strategy.run(step, x, y)).to<float>();
  }
  EXPECT_LT(last, 0.05f);
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 60);
}

TEST_P(OutsideOfScheduledFunctions, TracedStepsTrainAModel) {
  random::set_seed(1);
  const auto scope = strategy.scope();
  nn::Dense model(2, 1);
  optim::Sgd optimizer({.learning_rate = 0.2});
  const auto step = function([&](Tensor x, Tensor y) {
    const auto losses = strategy.run(
        [&](Tensor input, Tensor wanted) {
          GradientTape tape;
          const Tensor loss = mean(square(model(input) - wanted)) / float(replicas);
          optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
          return loss;
        },
        x, y);
    return strategy.reduce(ReduceOp::Sum, losses);
  });
  const Tensor x({{1.f, 0.f}, {0.f, 1.f}});
  const Tensor y({{1.f}, {-1.f}});
  float last = 0;
  for (int i = 0; i < 60; ++i) last = step(x, y).to<float>();
  EXPECT_LT(last, 0.05f);
}

TEST_P(OutsideOfScheduledFunctions, ReplicasWriteVariables) {
  Variable v = make({.aggregation = VariableAggregation::Sum});
  strategy.run([&] { v.assign_add(Tensor({1.f, 10.f})); });
  EXPECT_EQ(numbers(v.read_value()),
            (std::vector<float>{1 + 1.f * float(replicas), 2 + 10.f * float(replicas)}));
  strategy.run([&] { v.scatter_add({Tensor({1.f}), Tensor({0}), {2}}); });
  EXPECT_EQ(v.read_value()[0].to<float>(), 1 + 2.f * float(replicas));
  v.scatter_sub({Tensor({1.f}), Tensor({0}), {2}});
  EXPECT_EQ(v.read_value()[0].to<float>(), 2.f * float(replicas));
}

TEST_P(OutsideOfScheduledFunctions, ValuesAreReducedAndUpdatedBesideAVariable) {
  Variable v = make();
  const auto values = strategy.run([] { return Tensor({1.f, 2.f}); });
  StrategyExtended& extended = strategy.extended();
  const DistributedValue sum = extended.reduce_to(ReduceOp::Sum, values, v);
  EXPECT_EQ(numbers(sum.value().dense()),
            (std::vector<float>{float(replicas), 2.f * float(replicas)}));
  EXPECT_EQ(numbers(extended.broadcast_to(Tensor({5.f}), v).value().dense()),
            (std::vector<float>{5}));
  extended.update(
      v, [](Variable copy, Tensor by) { return copy.assign_add(by * 2.f); }, Tensor({1.f, 1.f}));
  EXPECT_EQ(numbers(v.read_value()), (std::vector<float>{3, 4}));
}

TEST(AnOptimizerOutsideOfRun, UpdatesVariablesWithAWarning) {
  test::CoordinatedCluster here(2, 1);
  Variable v = here.strategy.create([] { return Variable({1.f, 2.f}); });
  optim::Sgd optimizer({.learning_rate = 0.5});
  testing::internal::CaptureStderr();
  optimizer.apply_gradients({Gradient(Tensor({2.f, 4.f}))}, {v});
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{0, 0}));
  optimizer.set_learning_rate(1.0);
  optimizer.apply_gradients({Gradient(IndexedSlices{Tensor({3.f}), Tensor({1}), {2}})}, {v});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("apply_gradients() was called outside"),
            std::string::npos);
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{0, -3}));
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 2);
}

TEST(ATracedUpdateOutsideOfScheduledFunctions, WaitsForNoOtherGradientsInSynchronousTraining) {
  test::CoordinatedCluster here(2, 1, {.sync = true});
  ClusterCoordinator coordinator(here.strategy);
  Variable v = here.strategy.create([] { return Variable({10.f, 20.f}); });
  optim::Sgd optimizer({.learning_rate = 0.5});
  const auto push = function([&](Tensor gradient) {
    optimizer.apply_gradients({Gradient(gradient)}, {v});
    return optimizer.iterations().read_value();
  });
  const Tensor gradient({2.f, 4.f});
  push(gradient);
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{9, 18}));
  coordinator.schedule(push, gradient);
  coordinator.join();
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{8, 16}));
  push(gradient);
  EXPECT_EQ(v.read_value().to_vector<float>(), (std::vector<float>{7, 14}));
}

INSTANTIATE_TEST_SUITE_P(Replicas, OutsideOfScheduledFunctions,
                         testing::Combine(testing::Values(1, 2), testing::Bool()));

}  // namespace
}  // namespace cohort
