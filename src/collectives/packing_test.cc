#include "collectives/packing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

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

TEST(PacksByBytes, OfNothingAreNone) { EXPECT_TRUE(packs_by_bytes({}, 80).empty()); }

RC_GTEST_PROP(EqualPacks, AddUpToTheTotal, ()) {
  const auto total = *rc::gen::inRange<int64_t>(0, 100000);
  const auto packs = *rc::gen::inRange(1, 50);
  const Sizes sizes = equal_packs(total, packs);
  RC_ASSERT(sizes.size() == static_cast<size_t>(packs));
  RC_ASSERT(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == total);
  RC_ASSERT(*std::max_element(sizes.begin(), sizes.end()) == sizes.back());
}

RC_GTEST_PROP(PacksByBytes, HoldEveryTensorOnceAndInOrder, ()) {
  const auto sizes = *rc::gen::container<Sizes>(rc::gen::inRange<int64_t>(0, 200));
  const auto limit = *rc::gen::inRange<int64_t>(0, 500);
  const auto packs = packs_by_bytes(sizes, limit);
  std::vector<size_t> all;
  for (const auto& pack : packs) {
    RC_ASSERT(!pack.empty());
    all.insert(all.end(), pack.begin(), pack.end());
  }
  std::vector<size_t> expected(sizes.size());
  std::iota(expected.begin(), expected.end(), size_t{0});
  RC_ASSERT(all == expected);
}

RC_GTEST_PROP(PacksByBytes, ExceedTheLimitWithTheirLastTensorOnly, ()) {
  const auto sizes = *rc::gen::container<Sizes>(rc::gen::inRange<int64_t>(0, 200));
  const auto limit = *rc::gen::inRange<int64_t>(1, 500);
  const Packs packs = by_bytes(sizes, limit);
  for (size_t i = 0; i < packs.size(); ++i) {
    const int64_t bytes = std::accumulate(packs[i].begin(), packs[i].end(), int64_t{0});
    RC_ASSERT(bytes - packs[i].back() <= limit);
    if (i + 1 < packs.size()) RC_ASSERT(bytes > limit);
  }
}

}  // namespace
}  // namespace cohort::internal
