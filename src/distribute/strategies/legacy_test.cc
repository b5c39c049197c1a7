#include "cohort/legacy.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"

namespace cohort::legacy {
namespace {

TEST(Legacy, TowersHaveTheirOldNames) {
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  DistributionStrategy& strategy = mirrored;
  EXPECT_TRUE(get_tower_context()->is_single_tower());
  const auto scope = strategy.scope();
  EXPECT_FALSE(get_tower_context().has_value());
  const PerDevice<int> ids = call_for_each_tower(strategy, [&] {
    const TowerContext tower = *get_tower_context();
    EXPECT_EQ(&tower.distribution_strategy(), &strategy);
    EXPECT_FALSE(tower.is_single_tower());
    EXPECT_TRUE(tower.device().ends_with(tower.tower_id() == 0 ? "CPU:0" : "CPU:1"));
    const int sum = tower.merge_call(
        [](Strategy&, const PerDevice<int>& all) { return all[0] + all[1]; }, tower.tower_id());
    return 10 * sum + tower.tower_id();
  });
  EXPECT_EQ(unwrap(strategy, ids), (std::vector<int>{10, 11}));
}

TEST(Legacy, GroupIsAnEmptyTensor) { EXPECT_EQ(group({Tensor(1.f), Tensor(2.f)}).size(), 0); }

}  // namespace
}  // namespace cohort::legacy
