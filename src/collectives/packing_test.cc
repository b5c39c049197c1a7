#include "collectives/packing.h"

#include <gtest/gtest.h>

namespace cohort::internal {
namespace {

using Sizes = std::vector<int64_t>;
using Packs = std::vector<std::vector<int64_t>>;

// The sizes in each pack instead of their positions.
Packs sizes_in(const std::vector<std::vector<size_t>>& packs, const Sizes& sizes) {
  Packs result;
  for (const auto& pack : packs) {
    result.emplace_back();
    for (const size_t position : pack) result.back().push_back(sizes[position]);
  }
  return result;
}

Packs by_bytes(const Sizes& sizes, int64_t limit) {
  return sizes_in(packs_by_bytes(sizes, limit), sizes);
}

TEST(EqualPacks, GiveWhatIsLeftOverToTheLast) {
  EXPECT_EQ(equal_packs(23, 4), (Sizes{5, 5, 5, 8}));
  EXPECT_EQ(equal_packs(24, 4), (Sizes{6, 6, 6, 6}));
  EXPECT_EQ(equal_packs(7, 1), (Sizes{7}));
}

TEST(EqualPacks, AreEmptyBeforeTheLastWhenThereAreTooFewElements) {
  EXPECT_EQ(equal_packs(3, 5), (Sizes{0, 0, 0, 0, 3}));
  EXPECT_EQ(equal_packs(0, 2), (Sizes{0, 0}));
}

TEST(PacksByBytes, AreFullOnceTheyExceedTheLimit) {
  EXPECT_EQ(by_bytes({40, 40, 40, 40, 10}, 80), (Packs{{40, 40, 40}, {40, 10}}));
  EXPECT_EQ(by_bytes({100, 60, 30}, 100), (Packs{{100, 60}, {30}}));
  EXPECT_EQ(by_bytes({101, 60, 30}, 100), (Packs{{101}, {60, 30}}));
}

TEST(PacksByBytes, AreOneWithoutALimit) {
  EXPECT_EQ(by_bytes({40, 40, 40}, 0), (Packs{{40, 40, 40}}));
}

TEST(PacksByBytes, AreOneWhenASizeIsUnknown) {
  EXPECT_EQ(by_bytes({400, -1, 400}, 8), (Packs{{400, -1, 400}}));
}

TEST(PacksByBytes, OfNothingAreNone) {
  EXPECT_TRUE(packs_by_bytes({}, 80).empty());
  EXPECT_TRUE(packs_from_last({}, 80).empty());
}

TEST(PacksFromLast, BeginWithTheLastTensorAndNameOriginalPositions) {
  const Sizes sizes{10, 40, 40, 40, 40};
  const auto packs = packs_from_last(sizes, 80);
  EXPECT_EQ(packs, (std::vector<std::vector<size_t>>{{4, 3, 2}, {1, 0}}));
  EXPECT_EQ(sizes_in(packs, sizes), (Packs{{40, 40, 40}, {40, 10}}));
}

}  // namespace
}  // namespace cohort::internal
