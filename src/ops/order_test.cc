// Orderings (sort, argsort, top_k, unique) and spacings (range, linspace, fill).

#include <gtest/gtest.h>

#include <cmath>

#include "cohort/error.h"
#include "cohort/ops.h"
#include "cohort/random.h"

namespace cohort {
namespace {

using Ints = std::vector<int>;
using Floats = std::vector<float>;

TEST(Sort, KeepsTheOrderOfEqualValues) {
  const Tensor x({2, 1, 2, 1, 3});
  EXPECT_EQ(argsort(x).to_vector<int>(), Ints({1, 3, 0, 2, 4}));
  EXPECT_EQ(argsort(x, 0, SortOrder::Descending).to_vector<int>(), Ints({4, 0, 2, 1, 3}));
}

TEST(Sort, PutsNanLastBothWays) {
  const Tensor x({NAN, 1.f, INFINITY, NAN, -1.f});
  EXPECT_EQ(argsort(x).to_vector<int>(), Ints({4, 1, 2, 0, 3}));
  EXPECT_EQ(argsort(x, 0, SortOrder::Descending).to_vector<int>(), Ints({2, 1, 4, 0, 3}));
}

TEST(Sort, TakesEveryNumber) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt64, kUInt8}) {
    EXPECT_EQ(sort(cast(Tensor({3, 1, 2}), dtype)).to_vector<int>(), Ints({1, 2, 3}));
  }
  EXPECT_EQ(sort(Tensor({true, false})).to_vector<bool>(), (std::vector<bool>{false, true}));
}

TEST(Sort, ItsGradientFollowsTheValues) {
  const Tensor x({3.f, 1.f, 2.f});
  GradientTape tape;
  tape.watch(x);
  const Tensor gradient = tape.gradient(sum(sort(x) * Tensor({10.f, 20.f, 30.f})), x);
  EXPECT_EQ(gradient.to_vector<float>(), Floats({30, 10, 20}));
}

TEST(TopK, PrefersTheLowerIndexAndNeverNan) {
  const TopK best = top_k(Tensor({NAN, 2.f, 5.f, 5.f, 2.f}), 3);
  EXPECT_EQ(best.values.to_vector<float>(), Floats({5, 5, 2}));
  EXPECT_EQ(best.indices.to_vector<int>(), Ints({2, 3, 1}));
}

// Few values of a long row are found by another way than many: by a heap.
TEST(TopK, OfLongRowsIsTheBeginningOfTheSortedRow) {
  random::Generator generator(5);
  const Tensor dice = cast(generator.randint({3, 700}, 0, 40), kFloat32);
  const Tensor x = where(equal(dice, 39.f), Tensor(NAN), dice);
  const Tensor order = argsort(x, 1, SortOrder::Descending);
  for (const int64_t keep : {1, 10, 11, 300}) {
    const Tensor found = top_k(x, keep).indices;
    for (int64_t row = 0; row < 3; ++row) {
      for (int64_t i = 0; i < keep; ++i) {
        ASSERT_EQ(found.at<int64_t>({row, i}), order.at<int64_t>({row, i})) << keep << ' ' << i;
      }
    }
  }
}

TEST(TopK, OfNoneIsEmpty) { EXPECT_EQ(top_k(ones({2, 3}), 0).values.shape(), Shape({2, 0})); }

TEST(Unique, KeepsTheOrderOfFirstAppearance) {
  const Unique found = unique(Tensor({7, 3, 7, 1, 3}));
  EXPECT_EQ(found.values.to_vector<int>(), Ints({7, 3, 1}));
  EXPECT_EQ(found.values.dtype(), kInt32);
  EXPECT_EQ(found.inverse.to_vector<int>(), Ints({0, 1, 0, 2, 1}));
  EXPECT_EQ(found.counts.to_vector<int>(), Ints({2, 2, 1}));
}

TEST(Unique, LooksAtTheElementsOfAnyShape) {
  const Tensor x = reshape(Tensor({"b", "a", "b", "b"}), {2, 2});
  const Unique found = unique(x);
  EXPECT_EQ(found.values.to_vector<std::string>(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(found.inverse.shape(), Shape({2, 2}));
  EXPECT_EQ(gather(found.values, found.inverse).to_vector<std::string>(),
            x.to_vector<std::string>());
}

TEST(Unique, TakesZeroOfEitherSignAsEqualAndNanAsDifferent) {
  EXPECT_EQ(unique(Tensor({0.f, -0.f, NAN, NAN})).counts.to_vector<int>(), Ints({2, 1, 1}));
}

TEST(Unique, HasNoGradientAndSaysWhy) {
  const Tensor x({1.f, 2.f});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(unique(x).values);
  try {
    tape.gradient(y, x);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::Unimplemented);
    EXPECT_NE(error.message().find("[Unique]"), std::string::npos);
  }
}

TEST(Range, StopsBeforeTheLimit) {
  EXPECT_EQ(range(4).to_vector<int>(), Ints({0, 1, 2, 3}));
  EXPECT_EQ(range(-3).size(), 0);
  EXPECT_EQ(range(5, 0, -2, kInt32).to_vector<int>(), Ints({5, 3, 1}));
  EXPECT_EQ(range(0, 2.5, 1, kInt32).to_vector<int>(), Ints({0, 1, 2}));
  EXPECT_EQ(range(0, 0.5, 1).size(), 1);
  EXPECT_EQ(range(1, 0, 1).size(), 0);
}

TEST(Range, CountsExactlyBeyondTheWholeNumbersOfADouble) {
  const Tensor numbers = range(0x1p60, 0x1p60 + 1024, 256, kInt64);
  EXPECT_EQ(numbers.at<int64_t>({3}), (int64_t{1} << 60) + 768);
}

TEST(Range, MakesEveryNumber) {
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt64, kUInt8}) {
    EXPECT_EQ(range(3, dtype).dtype(), dtype);
    EXPECT_EQ(range(3, dtype).to_vector<int>(), Ints({0, 1, 2}));
  }
}

TEST(Linspace, IncludesBothEndsExactly) {
  const Tensor thirds = linspace(0.1, 0.7, 4, kFloat64);
  EXPECT_EQ(thirds.at<double>({0}), 0.1);
  EXPECT_EQ(thirds.at<double>({3}), 0.7);
  EXPECT_EQ(linspace(3, 9, 1).to_vector<float>(), Floats({3}));
  EXPECT_EQ(linspace(3, 9, 0).size(), 0);
  EXPECT_EQ(linspace(-1e308, 1e308, 3, kFloat64).at<double>({1}), 0);
}

TEST(Fill, HasTheDtypeOfItsValue) {
  EXPECT_EQ(fill({2}, 3).dtype(), kInt32);
  EXPECT_EQ(fill({2}, true).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_EQ(fill_like(ones({2}, kUInt8), 7).to_vector<int>(), Ints({7, 7}));
}

TEST(Eye, MayBeLongerThanWide) {
  EXPECT_EQ(eye(3, 2, kInt8).to_vector<int>(), Ints({1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(eye(0).shape(), Shape({0, 0}));
  EXPECT_EQ(eye(1, std::nullopt, kBFloat16).to<float>(), 1);
}

TEST(ShapeOf, ReadsStringsToo) {
  EXPECT_EQ(shape(Tensor({"a", "b"})).to_vector<int>(), Ints({2}));
  EXPECT_EQ(size(Tensor({"a", "b"})).to<int>(), 2);
  EXPECT_EQ(rank(Tensor("a")).to<int>(), 0);
}

TEST(ShapeOf, PassesNoGradient) {
  const Tensor x({1.f, 2.f});
  GradientTape tape;
  tape.watch(x);
  const Tensor gradient = tape.gradient(sum(x) / cast(size(x), kFloat32), x);
  EXPECT_EQ(gradient.to_vector<float>(), Floats({0.5, 0.5}));
}

}  // namespace
}  // namespace cohort
