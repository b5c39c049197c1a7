// Changing rows of a strategy's variables.

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

using internal::expect_error;
using Values = std::vector<float>;

// Replica 0 changes row 1 by 4; replica 1 row 1 by 2 and row 3 by 6.
IndexedSlices own_delta() {
  const bool first = get_replica_context()->replica_id_in_sync_group() == 0;
  return first ? IndexedSlices{Tensor({4.f}), Tensor({int64_t{1}}), {4}}
               : IndexedSlices{Tensor({2.f, 6.f}), Tensor({int64_t{1}, int64_t{3}}), {4}};
}

std::vector<Values> rows(const Variable& variable) {
  std::vector<Values> all;
  for (const Variable& copy : internal::distributed(variable)->copies()) {
    all.push_back(copy.read_value().to_vector<float>());
  }
  return all;
}

using Change = Tensor (Variable::*)(const IndexedSlices&, Site);

Variable tens(Strategy& strategy, VariableAggregation aggregation,
              VariableSynchronization synchronization = VariableSynchronization::Auto) {
  return strategy.create([&] {
    return Variable({10.f, 10.f, 10.f, 10.f},
                    {.synchronization = synchronization, .aggregation = aggregation});
  });
}

std::vector<Values> after(Strategy& strategy, VariableAggregation aggregation, Change change) {
  Variable v = tens(strategy, aggregation);
  strategy.run([&] { (v.*change)(own_delta(), Site::here()); });
  return rows(v);
}

std::vector<Values> twice(const Values& values) { return {values, values}; }

constexpr Change kReplacing[] = {&Variable::scatter_min, &Variable::scatter_max,
                                 &Variable::scatter_update};

TEST(DistributedScatter, JoinsTheRowsOfAllReplicas) {
  const auto strategy = mirrored_strategy(2);
  using enum VariableAggregation;
  EXPECT_EQ(after(*strategy, Sum, &Variable::scatter_add), twice({10, 16, 10, 16}));
  EXPECT_EQ(after(*strategy, Mean, &Variable::scatter_add), twice({10, 13, 10, 13}));
  EXPECT_EQ(after(*strategy, Mean, &Variable::scatter_mul), twice({10, 20, 10, 30}));
  EXPECT_EQ(after(*strategy, Sum, &Variable::scatter_sub), twice({10, 4, 10, 4}));
  EXPECT_EQ(after(*strategy, Sum, &Variable::scatter_div), twice({10, 1.25, 10, 10.f / 6}));
}

TEST(DistributedScatter, TakesTheFirstReplicasRowsOrEachItsOwn) {
  const auto strategy = mirrored_strategy(2);
  using enum VariableAggregation;
  EXPECT_EQ(after(*strategy, OnlyFirstReplica, &Variable::scatter_add), twice({10, 14, 10, 10}));
  EXPECT_EQ(after(*strategy, OnlyFirstReplica, &Variable::scatter_update), twice({10, 4, 10, 10}));
  EXPECT_EQ(after(*strategy, None, &Variable::scatter_add),
            (std::vector<Values>{{10, 14, 10, 10}, {10, 12, 10, 16}}));
  EXPECT_EQ(after(*strategy, None, &Variable::scatter_min),
            (std::vector<Values>{{10, 4, 10, 10}, {10, 2, 10, 6}}));
}

TEST(DistributedScatter, CannotReplaceRowsThatAreSummed) {
  const std::unique_ptr<Strategy> strategies[] = {mirrored_strategy(2), central_strategy(2)};
  for (const auto& strategy : strategies) {
    for (const auto aggregation : {VariableAggregation::Sum, VariableAggregation::Mean}) {
      for (const Change change : kReplacing) {
        Variable v = tens(*strategy, aggregation);
        const IndexedSlices delta{Tensor({4.f}), Tensor({int64_t{1}}), {4}};
        expect_error([&] { after(*strategy, aggregation, change); }, "scatter_",
                     Code::Unimplemented);
        expect_error([&] { (v.*change)(delta, Site::here()); }, "scatter_", Code::Unimplemented);
        EXPECT_EQ(rows(v)[0], Values(4, 10));
      }
    }
  }
}

TEST(DistributedScatter, OutsideOfReplicasChangesAllCopies) {
  const auto strategy = mirrored_strategy(2);
  const IndexedSlices delta{Tensor({4.f}), Tensor({int64_t{1}}), {4}};
  for (const auto aggregation : {VariableAggregation::None, VariableAggregation::Sum,
                                 VariableAggregation::OnlyFirstReplica}) {
    Variable v = tens(*strategy, aggregation);
    v.scatter_add(delta);
    EXPECT_EQ(rows(v), twice({10, 14, 10, 10}));
  }
  Variable v = tens(*strategy, VariableAggregation::None);
  v.scatter_max(IndexedSlices{Tensor({40.f}), Tensor({int64_t{2}}), {4}});
  EXPECT_EQ(rows(v), twice({10, 10, 40, 10}));
}

TEST(DistributedScatter, DoesNotExistForVariablesThatSyncOnRead) {
  const auto strategy = mirrored_strategy(2);
  Variable v = tens(*strategy, VariableAggregation::Sum, VariableSynchronization::OnRead);
  const IndexedSlices delta{Tensor({4.f}), Tensor({int64_t{1}}), {4}};
  expect_error([&] { v.scatter_add(delta); }, "scatter", Code::Unimplemented);
  expect_error([&] { strategy->run([&] { v.scatter_add(own_delta(), Site::here()); }); }, "scatter",
               Code::Unimplemented);
  const auto updated = [&](const Variable&) { v.scatter_add(delta); };
  expect_error([&] { strategy->extended().update(v, updated); }, "scatter", Code::Unimplemented);
}

TEST(DistributedScatter, OnOneCopyHappensOnce) {
  const auto strategy = central_strategy(2);
  EXPECT_EQ(after(*strategy, VariableAggregation::Sum, &Variable::scatter_add),
            (std::vector<Values>{{10, 16, 10, 16}}));
  EXPECT_EQ(after(*strategy, VariableAggregation::OnlyFirstReplica, &Variable::scatter_update),
            (std::vector<Values>{{10, 4, 10, 10}}));
  expect_error([&] { after(*strategy, VariableAggregation::None, &Variable::scatter_add); },
               "None");
}

}  // namespace
}  // namespace cohort
