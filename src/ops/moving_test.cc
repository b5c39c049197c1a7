// What the ops that move elements do beyond what the conformance suite sees: views, strings,
// bounds.

#include <gtest/gtest.h>

#include <cmath>

#include "cohort/ops.h"
#include "tensor/aten.h"

namespace cohort {
namespace {

using Strings = std::vector<std::string>;
using Ints = std::vector<int>;

Tensor ints(int count) { return range(count, kInt32); }
Tensor words() { return reshape(Tensor({"a", "b", "c", "d", "e", "f"}), {2, 3}); }

bool shares_memory(const Tensor& a, const Tensor& b) {
  return internal::aten(a).storage().data() == internal::aten(b).storage().data();
}

Ints sliced(int count, const Range& range) { return slice(ints(count), {range}).to_vector<int>(); }

TEST(Slice, ClampsBoundsBeyondTheEnds) {
  EXPECT_EQ(sliced(4, {.begin = -100, .end = 100}), Ints({0, 1, 2, 3}));
  EXPECT_EQ(sliced(4, {.begin = 100, .end = -100, .step = -1}), Ints({3, 2, 1, 0}));
  EXPECT_EQ(sliced(4, {.begin = INT64_MIN, .end = INT64_MAX}), Ints({0, 1, 2, 3}));
}

TEST(Slice, IsEmptyWhenTheBoundsCross) {
  EXPECT_EQ(sliced(4, {.begin = 3, .end = 1}), Ints());
  EXPECT_EQ(sliced(4, {.begin = 1, .end = 3, .step = -1}), Ints());
  EXPECT_EQ(sliced(0, {.step = -1}), Ints());
}

TEST(Slice, StepsForwardAndBackward) {
  EXPECT_EQ(sliced(7, {.begin = 1, .step = 3}), Ints({1, 4}));
  EXPECT_EQ(sliced(7, {.step = -3}), Ints({6, 3, 0}));
  EXPECT_EQ(sliced(7, {.begin = -2, .end = 0, .step = -2}), Ints({5, 3, 1}));
}

TEST(Slice, TakesAnyStep) {
  EXPECT_EQ(sliced(4, {.begin = 1, .step = INT64_MAX}), Ints({1}));
  EXPECT_EQ(sliced(4, {.begin = 2, .step = INT64_MIN}), Ints({2}));
}

TEST(Slice, LeavesDimensionsWithoutARangeWhole) {
  EXPECT_EQ(slice(ones({3, 4, 5}), {{.begin = 1}}).shape(), Shape({2, 4, 5}));
}

TEST(Slice, IsAViewUnlessItReverses) {
  const Tensor x = ints(6);
  EXPECT_TRUE(shares_memory(x, slice(x, {{.begin = 1, .step = 2}})));
  EXPECT_FALSE(shares_memory(x, slice(x, {{.step = -1}})));
}

TEST(Index, IsAViewOfOnePart) {
  const Tensor x = reshape(ints(6), {3, 2});
  EXPECT_TRUE(shares_memory(x, x[1]));
  EXPECT_EQ(x[-1].to_vector<int>(), Ints({4, 5}));
  EXPECT_EQ(x[1][0].to<int>(), 2);
}

TEST(ShapeOps, ReturnViewsWhereTheyCan) {
  const Tensor x = ones({2, 3});
  EXPECT_TRUE(shares_memory(x, reshape(x, {6})));
  EXPECT_TRUE(shares_memory(x, transpose(x)));
  EXPECT_TRUE(shares_memory(x, expand_dims(x, 0)));
  EXPECT_TRUE(shares_memory(x, squeeze(x)));
  EXPECT_TRUE(shares_memory(x, broadcast_to(x, {5, 2, 3})));
  EXPECT_TRUE(shares_memory(x, split(x, 3, 1)[2]));
  EXPECT_TRUE(shares_memory(x, unstack(x)[1]));
}

TEST(ShapeOps, MoveStrings) {
  const Tensor x = words();
  EXPECT_EQ(transpose(x).to_vector<std::string>(), Strings({"a", "d", "b", "e", "c", "f"}));
  EXPECT_EQ(slice(x, {{}, {.step = -2}}).to_vector<std::string>(), Strings({"c", "a", "f", "d"}));
  EXPECT_EQ(x[1].to_vector<std::string>(), Strings({"d", "e", "f"}));
  EXPECT_EQ(expand_dims(x, 1).shape(), Shape({2, 1, 3}));
  EXPECT_EQ(squeeze(expand_dims(x, 1)).to_vector<std::string>(), x.to_vector<std::string>());
  EXPECT_EQ(gather(x, Tensor({2, 0}), 1).to_vector<std::string>(), Strings({"c", "a", "f", "d"}));
  EXPECT_EQ(split(x, {1, -1}, 1)[1].to_vector<std::string>(), Strings({"b", "c", "e", "f"}));
  EXPECT_EQ(unstack(x, 1)[2].to_vector<std::string>(), Strings({"c", "f"}));
}

TEST(ShapeOps, JoinStrings) {
  EXPECT_EQ(concat({Tensor({"a", "b"}), Tensor({"c"})}, 0).to_vector<std::string>(),
            Strings({"a", "b", "c"}));
  const Tensor stacked = stack({Tensor({"a", "b"}), Tensor({"c", "d"})}, 1);
  EXPECT_EQ(stacked.shape(), Shape({2, 2}));
  EXPECT_EQ(stacked.to_vector<std::string>(), Strings({"a", "c", "b", "d"}));
}

TEST(Concat, BringsPartsToTheDtypeInWhichTheyMeet) {
  EXPECT_EQ(concat({ones({1}, kInt32), ones({1}, kFloat32)}, 0).dtype(), kFloat32);
  EXPECT_EQ(stack({ones({}, kFloat32), Tensor(2.0)}).dtype(), kFloat32);
  EXPECT_EQ(stack({Tensor(2.0), ones({}, kFloat32)}).dtype(), kFloat32);
}

TEST(Split, OfNothingGivesEmptyParts) {
  EXPECT_EQ(split(ones({0, 2}), 3).size(), 3u);
  EXPECT_EQ(unstack(ones({0, 2})).size(), 0u);
}

TEST(Split, AnUnusedPartHasGradientZero) {
  const Tensor x({1.f, 2.f, 3.f, 4.f});
  GradientTape tape;
  tape.watch(x);
  const Tensor gradient = tape.gradient(sum(split(x, 2)[1]), x);
  EXPECT_EQ(gradient.to_vector<int>(), Ints({0, 0, 1, 1}));
}

TEST(Pad, TakesInfinityForFloats) {
  const Tensor padded = pad(ones({1}), {{0, 1}}, -INFINITY);
  EXPECT_EQ(padded.to_vector<float>(), (std::vector<float>{1, -INFINITY}));
}

TEST(Tile, ByZeroIsEmpty) {
  EXPECT_EQ(tile(ones({2, 3}), {0, 2}).shape(), Shape({0, 6}));
  const Tensor x = ones({2});
  GradientTape tape;
  tape.watch(x);
  const Tensor gradient = tape.gradient(sum(tile(x, {0})), x);
  EXPECT_EQ(gradient.to_vector<int>(), Ints({0, 0}));
}

TEST(Index, HasSecondDerivatives) {
  const Tensor x({2.0, 3.0});
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor y = x[1] * x[1] * x[1];
  const Tensor slope = inner.gradient(y, x);
  const Tensor curvature = outer.gradient(slope[1], x);
  EXPECT_EQ(curvature.to_vector<double>(), (std::vector<double>{0, 18}));
}

}  // namespace
}  // namespace cohort
