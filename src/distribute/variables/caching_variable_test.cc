#include <gtest/gtest.h>

#include "cohort/ops.h"
#include "cohort/sharded_variable.h"
#include "cohort/variable.h"
#include "distribute/variables/variable_kinds.h"
#include "support/expect_error.h"
#include "support/variable_test_strategies.h"

namespace cohort {
namespace {

Variable cached(float value) {
  return internal::VariableAccess::make(
      std::make_shared<internal::CachingVariable>(Variable(value, {.name = "far"})));
}

float value_of(const Variable& variable) { return variable.read_value().to<float>(); }

TEST(CachingVariable, KeepsTheFirstReadOfAScope) {
  Variable v = cached(1);
  {
    const auto caching = cache_variable_reads();
    EXPECT_EQ(value_of(v), 1);
    v.assign(9.f);
    EXPECT_EQ(value_of(v), 1);
    EXPECT_EQ((v + 1.f).to<float>(), 2);
  }
  EXPECT_EQ(value_of(v), 9);
  const auto caching = cache_variable_reads();
  EXPECT_EQ(value_of(v), 9);
}

TEST(CachingVariable, ReadsAnewInEveryScopeHoweverManyThereWere) {
  Variable late = cached(1);
  for (int i = 0; i < 5; ++i) const auto caching = cache_variable_reads();
  const auto caching = cache_variable_reads();
  EXPECT_EQ(value_of(late), 1);
  late.assign(2.f);
  EXPECT_EQ(value_of(late), 1);
  EXPECT_EQ(value_of(late), 1);
}

TEST(CachingVariable, ThatHasEndedGivesItsValueToNoOther) {
  const auto caching = cache_variable_reads();
  for (int i = 0; i < 40; ++i) {
    const Variable v = cached(static_cast<float>(i));
    EXPECT_EQ(value_of(v), static_cast<float>(i));
  }
}

TEST(CachingVariable, ScopesDoNotNest) {
  const auto caching = cache_variable_reads();
  internal::expect_error([] { const auto inner = cache_variable_reads(); }, "nest");
}

TEST(CachingVariable, IsNeverCachedRowByRow) {
  const auto far = [](const std::vector<float>& rows) {
    return internal::VariableAccess::make(
        std::make_shared<internal::CachingVariable>(Variable(Tensor::from(rows))));
  };
  Variable table = far({1, 2});
  const ShardedVariable sharded({far({3, 4}), far({5, 6})});
  const auto caching = cache_variable_reads();
  const Tensor second({int64_t{1}});
  EXPECT_EQ(nn::embedding_lookup(table, second).to_vector<float>()[0], 2);
  EXPECT_EQ(sharded.sparse_read(second).to_vector<float>()[0], 4);
  table.assign_add(Tensor({10.f, 10.f}));
  for (Variable shard : sharded) shard.assign_add(Tensor({10.f, 10.f}));
  EXPECT_EQ(nn::embedding_lookup(table, second).to_vector<float>()[0], 12);
  EXPECT_EQ(nn::embedding_lookup(sharded, second).to_vector<float>()[0], 14);
  EXPECT_EQ(sharded.sparse_read(second).to_vector<float>()[0], 14);
  EXPECT_EQ(table.read_value().to_vector<float>()[1], 12);  // and fills no cache
  table.assign_add(Tensor({10.f, 10.f}));
  EXPECT_EQ(table.read_value().to_vector<float>()[1], 12);
}

TEST(CachingVariable, CachesForTheReplicasOfARun) {
  const auto strategy = mirrored_strategy(2);
  Variable v = cached(1);
  const auto caching = cache_variable_reads();
  EXPECT_EQ(value_of(v), 1);
  v.assign(9.f);
  const auto seen = strategy->run([&] { return v.read_value().to<float>(); });
  EXPECT_EQ(seen[0], 1);
  EXPECT_EQ(seen[1], 1);
}

TEST(CachingVariable, IsStillDifferentiated) {
  Variable v = cached(3);
  const auto caching = cache_variable_reads();
  value_of(v);
  GradientTape tape;
  const Tensor y = v * v;
  EXPECT_EQ(tape.gradient(y, v).dense().to<float>(), 6);
}

}  // namespace
}  // namespace cohort
