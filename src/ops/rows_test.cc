// Looking rows up and adding them: gather, scatter, one_hot, and gradients that are rows.

#include <gtest/gtest.h>

#include <sstream>

#include "cohort/error.h"
#include "cohort/ops.h"

namespace cohort {
namespace {

using Floats = std::vector<float>;

Tensor table() { return reshape(range(0.0, 6.0, 1.0), {3, 2}); }

class EveryIndexDtype : public ::testing::TestWithParam<DType> {};

TEST_P(EveryIndexDtype, Gathers) {
  const Tensor rows = gather(table(), cast(Tensor({2, 0}), GetParam()));
  EXPECT_EQ(rows.to_vector<float>(), Floats({4, 5, 0, 1}));
}

TEST_P(EveryIndexDtype, Scatters) {
  const Tensor sum = scatter(cast(Tensor({1, 1}), GetParam()), Tensor({2.f, 3.f}), {2});
  EXPECT_EQ(sum.to_vector<float>(), Floats({0, 5}));
}

INSTANTIATE_TEST_SUITE_P(All, EveryIndexDtype,
                         ::testing::Values(kInt8, kInt16, kInt32, kInt64, kUInt8));

TEST(Gather, ByAScalarDropsTheDimension) {
  EXPECT_EQ(gather(table(), Tensor(1)).to_vector<float>(), Floats({2, 3}));
  EXPECT_EQ(gather(table(), Tensor(1), 1).to_vector<float>(), Floats({1, 3, 5}));
}

TEST(Gather, ReadsStridedTables) {
  EXPECT_EQ(gather(transpose(table()), Tensor({1})).to_vector<float>(), Floats({1, 3, 5}));
}

TEST(Gather, OfRowsHasRowsAsGradient) {
  const Tensor x = table();
  GradientTape tape;
  tape.watch(x);
  const Gradient gradient = tape.gradient(sum(gather(x, Tensor({2, 0, 2})) * 3.f), x);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.slices().indices.to_vector<int>(), (std::vector<int>{2, 0, 2}));
  EXPECT_EQ(gradient.slices().values.shape(), Shape({3, 2}));
  EXPECT_EQ(gradient.slices().dense_shape, Shape({3, 2}));
  EXPECT_EQ(gradient.dense().to_vector<float>(), Floats({3, 3, 0, 0, 6, 6}));
}

TEST(Gather, OfColumnsHasADenseGradient) {
  const Tensor x = table();
  GradientTape tape;
  tape.watch(x);
  const Gradient gradient = tape.gradient(sum(gather(x, Tensor({1, 1}), -1)), x);
  ASSERT_FALSE(gradient.is_sparse());
  EXPECT_EQ(gradient.dense().to_vector<float>(), Floats({0, 2, 0, 2, 0, 2}));
}

TEST(Gather, TwiceFromOneTableJoinsTheRows) {
  const Tensor x = table();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(gather(x, Tensor({0}))) + sum(gather(x, Tensor({0, 1})));
  const Gradient gradient = tape.gradient(y, x);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.slices().indices.size(), 3);
  EXPECT_EQ(gradient.dense().to_vector<float>(), Floats({2, 2, 1, 1, 0, 0}));
}

TEST(Gather, OfNoColumnsHasAGradient) {
  const Tensor x = zeros({3, 0});
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(sum(gather(x, Tensor({1}))), x).dense().shape(), Shape({3, 0}));
}

TEST(Gather, HasSecondDerivatives) {
  const Tensor x({2.0, 3.0});
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor picked = gather(x, Tensor({1, 1}));
  const Tensor slope = inner.gradient(sum(picked * picked * picked), x);
  EXPECT_EQ(slope.to_vector<double>(), (std::vector<double>{0, 54}));
  const Tensor curvature = outer.gradient(sum(slope), x);
  EXPECT_EQ(curvature.to_vector<double>(), (std::vector<double>{0, 36}));
}

TEST(Scatter, TakesIndicesOfAnyShape) {
  const Tensor indices = reshape(Tensor({0, 1, 1, 0}), {2, 2});
  EXPECT_EQ(scatter(indices, ones({2, 2, 3}), {2, 3}).to_vector<float>(),
            Floats({2, 2, 2, 2, 2, 2}));
}

TEST(OneHot, GivesZerosForAnIndexOutside) {
  const Tensor rows = one_hot(Tensor({1, -1, 5}), 2, kInt8);
  EXPECT_EQ(rows.to_vector<int>(), (std::vector<int>{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(one_hot(Tensor(1), 2, kBool).to_vector<bool>(), (std::vector<bool>{false, true}));
  EXPECT_EQ(one_hot(Tensor({1}), 0).shape(), Shape({1, 0}));
}

template <typename Body>
Code code_of(Body&& body) {
  return capture_status(body).code;
}

TEST(Gradient, RefusesWhatItDoesNotHold) {
  const Gradient none;
  const Gradient dense{ones({2})};
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(code_of([&] { none.dense(); }), Code::FailedPrecondition);
  EXPECT_EQ(code_of([&] { none.slices(); }), Code::FailedPrecondition);
  EXPECT_EQ(code_of([&] { dense.slices(); }), Code::FailedPrecondition);
}

std::string text_of(const Gradient& gradient) {
  std::ostringstream out;
  out << gradient;
  return out.str();
}

TEST(Gradient, PrintsWhatItHolds) {
  EXPECT_EQ(text_of({}), "None");
  EXPECT_EQ(text_of(Tensor({1.f})), "Tensor([1.], shape=(1,), dtype=float32)");
  EXPECT_EQ(text_of(IndexedSlices{Tensor({1.f}), Tensor({int64_t{2}}), {3}}),
            "IndexedSlices(indices=Tensor([2], shape=(1,), dtype=int64), "
            "values=Tensor([1.], shape=(1,), dtype=float32), dense_shape=(3,))");
}

TEST(IndexedSlices, AddUpWhenARowComesTwice) {
  const IndexedSlices slices{Tensor({1.f, 2.f, 4.f}), Tensor({1, 0, 1}), {3}};
  EXPECT_EQ(slices.to_dense().to_vector<float>(), Floats({2, 5, 0}));
}

}  // namespace
}  // namespace cohort
