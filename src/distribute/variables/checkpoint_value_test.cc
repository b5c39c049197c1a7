// What checkpoints keep of a strategy's variables, and how they come back.

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;
using internal::VariableAccess;

Tensor saved(const Variable& variable) { return VariableAccess::impl(variable)->value_across(); }
void restore(const Variable& variable, const Tensor& value) {
  VariableAccess::impl(variable)->restore(value);
}

template <typename T>
Variable on_read(Strategy& strategy, VariableAggregation aggregation, T initial) {
  return strategy.create([&] {
    return Variable(
        initial, {.synchronization = VariableSynchronization::OnRead, .aggregation = aggregation});
  });
}

TEST(CheckpointValue, OfASumFitsAnyNumberOfReplicas) {
  const auto two = mirrored_strategy(2);
  const auto four = mirrored_strategy(4);
  Variable v = on_read(*two, VariableAggregation::Sum, 0.f);
  two->run([&] { v.assign(get_replica_context()->replica_id_in_sync_group() == 0 ? 9.f : 3.f); });
  EXPECT_EQ(saved(v).to<float>(), 12);
  const Variable wide = on_read(*four, VariableAggregation::Sum, 0.f);
  restore(wide, saved(v));
  EXPECT_EQ(copy_values(wide), (std::vector<float>{3, 3, 3, 3}));
  const Variable ordinary(0.f);
  restore(ordinary, saved(v));
  EXPECT_EQ(ordinary.read_value().to<float>(), 12);
  restore(wide, Tensor(10.f));
  EXPECT_EQ(copy_values(wide), (std::vector<float>(4, 2.5)));
}

TEST(CheckpointValue, OfIntegersLosesNothing) {
  const auto strategy = mirrored_strategy(4);
  const Variable v = on_read(*strategy, VariableAggregation::Sum, int64_t{0});
  restore(v, Tensor(int64_t{10}));
  EXPECT_EQ(copy_values(v), (std::vector<float>{3, 3, 2, 2}));
  EXPECT_EQ(saved(v).to<int64_t>(), 10);
  restore(v, Tensor(int64_t{-3}));
  EXPECT_EQ(saved(v).to<int64_t>(), -3);
}

TEST(CheckpointValue, OfMeanAndFirstComesBackToEveryCopy) {
  const auto strategy = mirrored_strategy(2);
  for (const auto aggregation :
       {VariableAggregation::Mean, VariableAggregation::OnlyFirstReplica}) {
    Variable v = on_read(*strategy, aggregation, 0.f);
    strategy->run(
        [&] { v.assign(get_replica_context()->replica_id_in_sync_group() == 0 ? 2.f : 4.f); });
    EXPECT_EQ(saved(v).to<float>(), aggregation == VariableAggregation::Mean ? 3 : 2);
    restore(v, Tensor(7.f));
    EXPECT_EQ(copy_values(v), (std::vector<float>{7, 7}));
  }
}

TEST(CheckpointValue, WithoutAggregationIsAnError) {
  const auto strategy = mirrored_strategy(2);
  const Variable v = on_read(*strategy, VariableAggregation::None, 0.f);
  expect_error([&] { saved(v); }, "aggregation None");
}

TEST(CheckpointValue, OfMirroredAndSharedVariablesIsOne) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), central_strategy(2)};
  for (const auto& strategy : strategies) {
    const Variable v = strategy->create([] { return Variable(1.f); });
    restore(v, Tensor(5.f));
    EXPECT_EQ(saved(v).to<float>(), 5);
    for (const float copy : copy_values(v)) EXPECT_EQ(copy, 5);
  }
}

}  // namespace
}  // namespace cohort
