#include "cohort/shape.h"

#include <gtest/gtest.h>

#include <sstream>

#include "support/expect_error.h"

namespace cohort {
namespace {

constexpr int64_t kHuge = int64_t{1} << 32;

TEST(Shape, IsAScalarsByDefault) {
  const Shape shape;
  EXPECT_EQ(shape.rank(), 0);
  EXPECT_EQ(shape.num_elements(), 1);
  EXPECT_TRUE(shape.is_fully_known());
  EXPECT_EQ(shape, Shape({}));
}

TEST(Shape, HoldsTheSizesItIsGiven) {
  const Shape shape{2, 0, 3};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.to_vector(), (std::vector<int64_t>{2, 0, 3}));
  EXPECT_EQ(shape, Shape(std::vector<int64_t>{2, 0, 3}));
  EXPECT_NE(shape, Shape({2, 0}));
  EXPECT_NE(shape, Shape({2, 0, 4}));
}

TEST(Shape, CountsAxesFromTheEndWhenNegative) {
  const Shape shape{2, 3};
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape[-1], 3);
  EXPECT_EQ(shape[-2], 2);
  EXPECT_ERROR(Code::InvalidArgument, "axis 2 is outside of shape (2, 3)", shape[2]);
  EXPECT_ERROR(Code::InvalidArgument, "axis -3 is outside of shape (2, 3)", shape[-3]);
  EXPECT_ERROR(Code::InvalidArgument, "axis 0 is outside of shape ()", Shape{}[0]);
  EXPECT_ERROR(Code::InvalidArgument, "<unknown>", Shape::unknown()[0]);
}

TEST(Shape, RejectsNegativeSizesButUnknown) {
  EXPECT_EQ(Shape({-1})[0], Shape::kUnknownDim);
  EXPECT_ERROR(Code::InvalidArgument, "size -2", Shape({3, -2}));
  EXPECT_ERROR(Code::InvalidArgument, "size -7", Shape({3}).with(0, -7));
  EXPECT_ERROR(Code::InvalidArgument, "size -7", Shape({3}).with_inserted(0, -7));
}

TEST(Shape, RejectsMoreDimensionsThanTensorsHave) {
  const std::vector<int64_t> most(Shape::kMaxRank, 1);
  EXPECT_EQ(Shape(most).rank(), 8);
  EXPECT_ERROR(Code::InvalidArgument, "at most 8 dimensions, got 9",
               Shape(std::vector<int64_t>(9, 1)));
  EXPECT_ERROR(Code::InvalidArgument, "at most 8 dimensions", Shape(most).with_inserted(0, 1));
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape({2, 3, 4}).num_elements(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).num_elements(), 0);
  EXPECT_EQ(Shape({kHuge, kHuge / 4}).num_elements(), kHuge * (kHuge / 4));
}

TEST(Shape, RefusesToCountWhatDoesNotFit) {
  EXPECT_ERROR(Code::InvalidArgument, "(4294967296, 4294967296)",
               Shape({kHuge, kHuge}).num_elements());
  EXPECT_EQ(Shape({kHuge, kHuge, 0}).num_elements(), 0);
}

TEST(Shape, RefusesToCountWhatIsUnknown) {
  EXPECT_ERROR(Code::InvalidArgument, "(None, 0)", Shape({-1, 0}).num_elements());
  EXPECT_ERROR(Code::InvalidArgument, "<unknown>", Shape::unknown().num_elements());
}

TEST(Shape, UnknownHasNoRank) {
  const Shape shape = Shape::unknown();
  EXPECT_FALSE(shape.has_rank());
  EXPECT_EQ(shape.rank(), -1);
  EXPECT_FALSE(shape.is_fully_known());
  EXPECT_EQ(shape.begin(), shape.end());
  EXPECT_EQ(shape, Shape::unknown());
  EXPECT_NE(shape, Shape{});
  EXPECT_FALSE(Shape({2, -1}).is_fully_known());
}

TEST(Shape, MakesChangedCopies) {
  const Shape shape{2, 3};
  EXPECT_EQ(shape.with(-1, 5), Shape({2, 5}));
  EXPECT_EQ(shape.without(0), Shape({3}));
  EXPECT_EQ(shape.with_inserted(0, 7), Shape({7, 2, 3}));
  EXPECT_EQ(shape.with_inserted(2, 7), Shape({2, 3, 7}));
  EXPECT_EQ(shape.with_inserted(-1, 7), Shape({2, 3, 7}));
  EXPECT_EQ(shape, Shape({2, 3}));
  EXPECT_ERROR(Code::InvalidArgument, "axis 2", shape.with(2, 1));
  EXPECT_ERROR(Code::InvalidArgument, "axis 2", shape.without(2));
  EXPECT_ERROR(Code::InvalidArgument, "axis 3", shape.with_inserted(3, 1));
}

TEST(Shape, IsCompatibleWhenSomeShapeAgreesWithBoth) {
  EXPECT_TRUE(Shape({2, -1}).is_compatible_with(Shape({-1, 3})));
  EXPECT_TRUE(Shape::unknown().is_compatible_with(Shape({1})));
  EXPECT_TRUE(Shape({1}).is_compatible_with(Shape::unknown()));
  EXPECT_FALSE(Shape({2}).is_compatible_with(Shape({3})));
  EXPECT_FALSE(Shape({2}).is_compatible_with(Shape({2, 1})));
}

TEST(Shape, MergesWhatBothSay) {
  EXPECT_EQ(Shape({2, -1}).merged_with(Shape({-1, 3})), Shape({2, 3}));
  EXPECT_EQ(Shape({-1, 0}).merged_with(Shape({-1, -1})), Shape({-1, 0}));
  EXPECT_EQ(Shape::unknown().merged_with(Shape({1})), Shape({1}));
  EXPECT_EQ(Shape({1}).merged_with(Shape::unknown()), Shape({1}));
  EXPECT_ERROR(Code::InvalidArgument, "(2,) and (3,)", Shape({2}).merged_with(Shape({3})));
}

TEST(Shape, PrintsAsATuple) {
  EXPECT_EQ(Shape{}.to_string(), "()");
  EXPECT_EQ(Shape({4}).to_string(), "(4,)");
  EXPECT_EQ(Shape({2, 3}).to_string(), "(2, 3)");
  EXPECT_EQ(Shape({-1, 3}).to_string(), "(None, 3)");
  EXPECT_EQ(Shape::unknown().to_string(), "<unknown>");
  std::ostringstream out;
  out << Shape({1, 2});
  EXPECT_EQ(out.str(), "(1, 2)");
}

}  // namespace
}  // namespace cohort
