#include "distribute/variables/update_guards.h"

#include <gtest/gtest.h>

#include <limits>

#include "cohort/function.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }

Tensor step(optim::Optimizer& optimizer, float gradient, const Variable& variable) {
  return optimizer.apply_gradients({Tensor({gradient})[0]}, {variable});
}

TEST(DivergenceGuard, NamesTheVariableTheReplicaAndTheStep) {
  const auto strategy = mirrored_strategy(3, {.guards = {.divergence_interval = 2}});
  const StrategyScope scope(*strategy);
  const Variable v(1.f, {.name = "weights"});
  optim::Sgd optimizer;
  const auto train = [&] { strategy->run([&] { step(optimizer, 1, v); }); };
  train();
  train();
  // The strategy does not see this write, as it does not see broken memory.
  Variable copy = internal::distributed(v)->copies()[2];
  copy.assign_add(1e-3f);
  train();
  expect_error(train, "after step 4: variable 'weights' of replica 2 differs from replica 0's",
               Code::DataLoss);
}

TEST(DivergenceGuard, IsOnByDefault) {
  const auto strategy = mirrored_strategy(2);
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  Variable copy = internal::distributed(v)->copies()[1];
  copy.assign(2.f);
  optim::Sgd optimizer;
  expect_error([&] { strategy->run([&] { step(optimizer, 1, v); }); }, "after step 1",
               Code::DataLoss);
}

TEST(DivergenceGuard, NeedsAPositiveInterval) {
  for (const int64_t interval : {0, -1}) {
    EXPECT_ERROR(Code::InvalidArgument, "leave it empty to compare no copies",
                 MirroredStrategy({"CPU:0"}, {.guards = {.divergence_interval = interval}}));
  }
}

TEST(DivergenceGuard, WarnsOrIsOffWhenAsked) {
  const GuardOptions quiet[] = {{.divergence_interval = std::nullopt},
                                {.divergence = GuardAction::Off},
                                {.divergence_interval = 1, .divergence = GuardAction::Warn}};
  for (const GuardOptions& guards : quiet) {
    const auto strategy = mirrored_strategy(2, {.guards = guards});
    const StrategyScope scope(*strategy);
    const Variable v(1.f);
    Variable copy = internal::distributed(v)->copies()[1];
    copy.assign(2.f);
    optim::Sgd optimizer;
    strategy->run([&] { step(optimizer, 1, v); });
  }
}

TEST(DivergenceGuard, LeavesVariablesAloneThatReplicasWroteForThemselves) {
  const auto strategy = mirrored_strategy(2, {.guards = {.divergence_interval = 1}});
  const StrategyScope scope(*strategy);
  Variable v(1.f);
  optim::Sgd optimizer;
  strategy->run([&] {
    v.assign(static_cast<float>(replica_id()));
    step(optimizer, 1, v);
  });
  // Set alike again, it is watched again.
  v.assign(1.f);
  Variable copy = internal::distributed(v)->copies()[1];
  copy.assign(2.f);
  expect_error([&] { strategy->run([&] { step(optimizer, 1, v); }); }, "differs", Code::DataLoss);
}

// What a function writes counts when it runs, not when it is traced.
TEST(DivergenceGuard, LeavesVariablesAloneThatTracedReplicasWriteForThemselves) {
  const auto strategy = mirrored_strategy(2, {.guards = {.divergence_interval = 1}});
  const StrategyScope scope(*strategy);
  Variable v(1.f);
  optim::Sgd optimizer;
  const auto ids = strategy->distribute_values_from_function([](ValueContext context) {
    return Tensor(static_cast<float>(context.replica_id_in_sync_group));
  });
  const auto write = function([&](const Tensor& own) { return v.assign(own); });
  strategy->run(write, ids);
  v.assign(1.f);
  strategy->run(write, ids);
  EXPECT_EQ(copy_values(v), (std::vector<float>{0, 1}));
  strategy->run([&] { step(optimizer, 1, v); });
}

TEST(DivergenceGuard, IsNotMisledByATracedWriteThatDoesNotRun) {
  const auto strategy = mirrored_strategy(2, {.guards = {.divergence_interval = 1}});
  const StrategyScope scope(*strategy);
  Variable v(1.f);
  optim::Sgd optimizer;
  strategy->run([&] { v.assign(static_cast<float>(replica_id())); });
  const auto set = function([&](const Tensor& wanted) {
    return cond(
        wanted, [&] { return v.assign(7.f); }, [] { return Tensor(0.f); });
  });
  set(Tensor(false));
  EXPECT_EQ(copy_values(v), (std::vector<float>{0, 1}));
  strategy->run([&] { step(optimizer, 1, v); });
}

TEST(DivergenceGuard, LeavesVariablesAloneThatUpdatesGaveDifferentValues) {
  const auto strategy = mirrored_strategy(2, {.guards = {.divergence_interval = 1}});
  const StrategyScope scope(*strategy);
  const Variable v(5.f);
  const auto deltas = strategy->run([] { return Tensor({1.f, 2.f})[replica_id()]; });
  strategy->extended().update(
      v, [](Variable copy, const Tensor& delta) { return copy.assign_sub(delta); }, deltas);
  EXPECT_EQ(copy_values(v), (std::vector<float>{4, 3}));
  optim::Sgd optimizer;
  strategy->run([&] { step(optimizer, 1, v); });
}

TEST(LoneWriteGuard, NamesTheVariableAndTheReplica) {
  const auto strategy = mirrored_strategy(2, {.guards = {.lone_writes = GuardAction::Stop}});
  const StrategyScope scope(*strategy);
  Variable alone(1.f, {.name = "alone"});
  Variable together(1.f, {.aggregation = VariableAggregation::Mean});
  strategy->run([&] { together.assign(2.f); });
  alone.assign(3.f);
  const auto write = [&] {
    if (replica_id() == 1) alone.assign(2.f);
  };
  expect_error([&] { strategy->run(write); }, "assign of variable 'alone' in replica 1",
               Code::FailedPrecondition);
  EXPECT_EQ(copy_values(alone), (std::vector<float>{3, 3}));
}

TEST(LoneWriteGuard, WarnsOrIsOffWhenAsked) {
  for (const GuardAction action : {GuardAction::Off, GuardAction::Warn}) {
    const auto strategy = mirrored_strategy(2, {.guards = {.lone_writes = action}});
    const StrategyScope scope(*strategy);
    Variable v(1.f);
    strategy->run([&] { v.assign(static_cast<float>(replica_id())); });
    EXPECT_EQ(copy_values(v), (std::vector<float>{0, 1}));
  }
}

TEST(NanGuard, StopsAndNamesReplicaAndVariable) {
  const auto strategy = mirrored_strategy(3, {.guards = {.non_finite = GuardAction::Stop}});
  const StrategyScope scope(*strategy);
  const Variable v(1.f, {.name = "weights"});
  optim::Sgd optimizer;
  const auto train = [&](float second) {
    strategy->run([&] { step(optimizer, replica_id() == 1 ? second : 0, v); });
  };
  train(0);
  expect_error([&] { train(kNan); },
               "step 2: the gradient of variable 'weights' is not finite in replica 1");
  EXPECT_EQ(copy_values(v), (std::vector<float>(3, 1)));
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 1);
}

TEST(NanGuard, SkipsTheStepInAllReplicas) {
  const auto strategy = mirrored_strategy(2, {.guards = {.non_finite = GuardAction::Skip}});
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer({.learning_rate = 1});
  const auto train = [&](float other) {
    return strategy->run([&] { return step(optimizer, replica_id() == 1 ? other : 1, v); });
  };
  EXPECT_EQ(train(kNan)[0].to<int64_t>(), 0);
  EXPECT_EQ(copy_values(v), (std::vector<float>(2, 1)));
  EXPECT_EQ(train(1)[1].to<int64_t>(), 1);
  EXPECT_EQ(copy_values(v), (std::vector<float>(2, -1)));
}

TEST(NanGuard, WarnsAndGoesOn) {
  const auto strategy = mirrored_strategy(2, {.guards = {.non_finite = GuardAction::Warn}});
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer;
  strategy->run([&] { step(optimizer, kNan, v); });
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 1);
}

TEST(NanGuard, TellsOverflowOfTheSumFromBadGradients) {
  const auto strategy = mirrored_strategy(2, {.guards = {.non_finite = GuardAction::Stop}});
  const StrategyScope scope(*strategy);
  const Variable v(1.f);
  optim::Sgd optimizer;
  const float most = std::numeric_limits<float>::max();
  expect_error([&] { strategy->run([&] { step(optimizer, most, v); }); }, "sum over replicas");
}

TEST(NanGuard, DoesNotMindLargeGradients) {
  const auto strategy = mirrored_strategy(2, {.guards = {.non_finite = GuardAction::Stop}});
  const StrategyScope scope(*strategy);
  const Variable v({1.f, 1.f, 1.f});
  optim::Sgd optimizer;
  strategy->run([&] {
    // Finite, though the sum of all elements is not.
    optimizer.apply_gradients({Tensor({1.5e38f, 1.5e38f, 1.5e38f})}, {v});
  });
}

}  // namespace
}  // namespace cohort
