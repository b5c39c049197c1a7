#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/ops.h"
#include "cohort/optim.h"
#include "support/expect_error.h"

namespace cohort::optim {
namespace {

using Doubles = std::vector<double>;

Doubles values(const Gradient& gradient) { return gradient.dense().to_vector<double>(); }

// Rows 2, 0, 2 of four; row 2 is {3, 4} in all.
Gradient rows() {
  return IndexedSlices{Tensor({{1.0, 5.0}, {0.0, 12.0}, {2.0, -1.0}}), Tensor({2, 0, 2}), {4, 2}};
}

TEST(ClipByValue, LimitsEachElement) {
  const Gradients clipped =
      clip_by_value({Tensor({-3.f, 0.5f, 3.f}), Gradient(), Tensor(-2.0)}, 1.5);
  EXPECT_EQ(values(clipped[0]), Doubles({-1.5, 0.5, 1.5}));
  EXPECT_EQ(clipped[0].dense().dtype(), kFloat32);
  EXPECT_FALSE(clipped[1].defined());
  EXPECT_EQ(values(clipped[2]), Doubles({-1.5}));
}

TEST(ClipByValue, AddsRowsUpFirst) {
  const Gradient clipped = clip_by_value({rows()}, 3.5)[0];
  ASSERT_TRUE(clipped.is_sparse());
  EXPECT_EQ(clipped.slices().indices.size(), 2);
  EXPECT_EQ(values(clipped), Doubles({0, 3.5, 0, 0, 3, 3.5, 0, 0}));
}

TEST(ClipByNorm, ShrinksWhatIsTooLong) {
  const Gradients clipped = clip_by_norm({Tensor({6.0, 8.0}), Tensor({3.0, 4.0})}, 5);
  EXPECT_EQ(values(clipped[0]), Doubles({3, 4}));
  EXPECT_EQ(values(clipped[1]), Doubles({3, 4}));
}

TEST(ClipByNorm, AddsRowsUpFirst) {
  const Gradient clipped = clip_by_norm({rows()}, 6.5)[0];
  ASSERT_TRUE(clipped.is_sparse());
  EXPECT_EQ(values(clipped), Doubles({0, 6, 0, 0, 1.5, 2, 0, 0}));
}

TEST(ClipByNorm, LeavesZerosAndNothingAlone) {
  const Gradients clipped = clip_by_norm({zeros({2}), Gradient(), zeros({0})}, 1);
  EXPECT_EQ(values(clipped[0]), Doubles({0, 0}));
  EXPECT_FALSE(clipped[1].defined());
  EXPECT_EQ(clipped[2].dense().shape(), Shape({0}));
}

TEST(ClipByNorm, MeasuresSmallFloatsInLargeOnes) {
  const Tensor large = cast(fill({4}, Tensor(300.f)), kFloat16);  // its square is beyond float16
  const Gradient clipped = clip_by_norm({large}, 300)[0];
  EXPECT_EQ(clipped.dense().dtype(), kFloat16);
  EXPECT_EQ(values(clipped), Doubles({150, 150, 150, 150}));
}

TEST(GlobalNorm, IsOverEverything) {
  EXPECT_EQ(global_norm({Tensor({3.f, 4.f}), Gradient(), Tensor(12.0)}).to<double>(), 13);
  EXPECT_EQ(global_norm({rows()}).to<double>(), 13);
  EXPECT_EQ(global_norm({}).to<double>(), 0);
}

TEST(ClipByGlobalNorm, ShrinksAllByOneFactor) {
  const Gradients gradients{Tensor({6.f, 8.f}), Gradient(), Tensor(24.0)};
  const Gradients clipped = clip_by_global_norm(gradients, 13);
  EXPECT_EQ(values(clipped[0]), Doubles({3, 4}));
  EXPECT_FALSE(clipped[1].defined());
  EXPECT_EQ(values(clipped[2]), Doubles({12}));
  EXPECT_EQ(values(clip_by_global_norm(gradients, 100)[0]), Doubles({6, 8}));
}

TEST(ClipByGlobalNorm, KeepsRowsSparse) {
  const Gradients clipped = clip_by_global_norm({rows(), Tensor(0.0)}, 6.5);
  ASSERT_TRUE(clipped[0].is_sparse());
  EXPECT_EQ(values(clipped[0]), Doubles({0, 6, 0, 0, 1.5, 2, 0, 0}));
}

TEST(Clipping, DoesNotHideNan) {
  const Tensor broken({std::numeric_limits<double>::quiet_NaN(), 1.0});
  EXPECT_TRUE(std::isnan(values(clip_by_norm({broken}, 1)[0])[0]));
  EXPECT_TRUE(std::isnan(values(clip_by_global_norm({broken}, 1)[0])[0]));
}

TEST(Clipping, NamesWrongLimits) {
  EXPECT_ERROR(Code::InvalidArgument, "[ClipByValue] the limit must be positive, got 0",
               clip_by_value({}, 0));
  EXPECT_ERROR(Code::InvalidArgument, "[ClipByNorm] the limit must be positive, got -1",
               clip_by_norm({}, -1));
  EXPECT_ERROR(Code::InvalidArgument, "[ClipByGlobalNorm]", clip_by_global_norm({}, 0));
}

}  // namespace
}  // namespace cohort::optim
