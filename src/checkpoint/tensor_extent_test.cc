#include "checkpoint/tensor_extent.h"

#include <gtest/gtest.h>

#include <numeric>

namespace cohort::internal {
namespace {

TEST(Extent, LiesInAShapeOfItsRank) {
  EXPECT_TRUE(lies_in({{1, 2}, {2, 3}}, {3, 5}));
  EXPECT_FALSE(lies_in({{1, 3}, {2, 3}}, {3, 5}));
  EXPECT_FALSE(lies_in({{-1, 0}, {2, 3}}, {3, 5}));
  EXPECT_FALSE(lies_in({{0}, {2}}, {3, 5}));
  EXPECT_FALSE(lies_in({{0}, {2, 3}}, {3, 5}));
  EXPECT_FALSE(lies_in({{INT64_MAX, 0}, {2, 3}}, {3, 5}));
  EXPECT_TRUE(lies_in({{}, {}}, {}));
  EXPECT_EQ((Extent{{1, 2}, {2, 3}}.to_string()), "[1:3, 2:5]");
}

TEST(Extent, TilesAShapeWithoutGapOrOverlap) {
  EXPECT_TRUE(tile(std::vector<Extent>{{{0}, {3}}, {{3}, {2}}}, {5}));
  EXPECT_FALSE(tile(std::vector<Extent>{{{0}, {3}}, {{3}, {1}}}, {5}));
  EXPECT_FALSE(tile(std::vector<Extent>{{{0}, {3}}, {{2}, {2}}}, {5}));
  EXPECT_TRUE(
      tile(std::vector<Extent>{{{0, 0}, {2, 2}}, {{0, 2}, {2, 1}}, {{2, 0}, {1, 3}}}, {3, 3}));
  EXPECT_TRUE(tile(std::vector<Extent>{{{0, 0}, {0, 3}}}, {0, 3}));
}

// Fills `to` from the parts of a tensor cut at `from_cuts`, and says whether it is what one cut
// from the whole would be.
void expect_same_cut(const std::vector<Extent>& from, const Extent& to, const Shape& shape) {
  std::vector<int> all(static_cast<size_t>(shape.num_elements()));
  std::iota(all.begin(), all.end(), 0);
  const Extent whole = whole_of(shape);
  std::vector<int> expected(static_cast<size_t>(to.shape.num_elements()), -1);
  const auto bytes = [](std::vector<int>& numbers) {
    return reinterpret_cast<std::byte*>(numbers.data());
  };
  copy_overlap({whole, bytes(all)}, {to, bytes(expected)}, sizeof(int));
  std::vector<int> actual(expected.size(), -1);
  for (const Extent& part : from) {
    std::vector<int> numbers(static_cast<size_t>(part.shape.num_elements()));
    copy_overlap({whole, bytes(all)}, {part, bytes(numbers)}, sizeof(int));
    copy_overlap({part, bytes(numbers)}, {to, bytes(actual)}, sizeof(int));
  }
  EXPECT_EQ(actual, expected) << to.to_string();
}

TEST(Extent, OverlapsCopyToWhereTheyBelong) {
  std::vector<int> from{0, 1, 2, 3, 4, 5};  // rows 1 and 2 of three
  std::vector<int> to(4, -1);               // columns 1 and 2 of rows 0 and 1
  const Extent source{{1, 0}, {2, 3}};
  const Extent target{{0, 1}, {2, 2}};
  copy_overlap({source, reinterpret_cast<const std::byte*>(from.data())},
               {target, reinterpret_cast<std::byte*>(to.data())}, sizeof(int));
  EXPECT_EQ(to, (std::vector<int>{-1, -1, 1, 2}));
}

TEST(Extent, AnyCutIsMadeFromAnyOther) {
  const Shape shape{5, 4, 3};
  const std::vector<Extent> rows{{{0, 0, 0}, {3, 4, 3}}, {{3, 0, 0}, {2, 4, 3}}};
  const std::vector<Extent> columns{{{0, 0, 0}, {5, 1, 3}}, {{0, 1, 0}, {5, 3, 3}}};
  const std::vector<Extent> blocks{
      {{0, 0, 0}, {2, 4, 2}}, {{2, 0, 0}, {3, 4, 2}}, {{0, 0, 2}, {5, 4, 1}}};
  for (const auto& from : {rows, columns, blocks}) {
    ASSERT_TRUE(tile(from, shape));
    for (const auto& targets : {rows, columns, blocks}) {
      for (const Extent& to : targets) expect_same_cut(from, to, shape);
    }
    expect_same_cut(from, whole_of(shape), shape);
  }
}

TEST(Extent, AScalarIsOneElement) {
  const int from = 7;
  int to = 0;
  const Extent scalar = whole_of({});
  copy_overlap({scalar, reinterpret_cast<const std::byte*>(&from)},
               {scalar, reinterpret_cast<std::byte*>(&to)}, sizeof(int));
  EXPECT_EQ(to, 7);
}

}  // namespace
}  // namespace cohort::internal
