#include <cmath>
#include <limits>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "ops/op.h"
#include "support/expect_error.h"
#include "support/find_op.h"

namespace cohort::internal {
namespace {

using Values = std::vector<double>;

const Tensor& matrix() {
  static const Tensor x({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  return x;
}

Tensor empty(const Shape& shape) { return Tensor::from(std::vector<float>{}, shape); }

// d(target(x))/dx
template <typename Target>
Values gradient_of(Target target, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Gradient gradient = tape.gradient(target(x), x);
  return gradient.dense().to_vector<double>();
}

TEST(Sum, ReducesTheNamedAxesOnly) {
  EXPECT_EQ(sum(matrix()).to<double>(), 21);
  EXPECT_EQ(sum(matrix(), 0).to_vector<double>(), (Values{5, 7, 9}));
  EXPECT_EQ(sum(matrix(), -1).to_vector<double>(), (Values{6, 15}));
  EXPECT_EQ(sum(matrix(), {0, 1}).shape(), Shape{});
}

TEST(Sum, KeepsReducedAxesOnRequest) {
  EXPECT_EQ(sum(matrix(), 0, KeepDims::Yes).shape(), (Shape{1, 3}));
  EXPECT_EQ(sum(matrix(), {}, KeepDims::Yes).shape(), (Shape{1, 1}));
}

TEST(Sum, OverAnEmptyListOfAxesChangesNothing) {
  const Axes none(std::vector<int64_t>{});
  EXPECT_EQ(sum(matrix(), none).to_vector<double>(), matrix().to_vector<double>());
  EXPECT_EQ(mean(matrix(), none).shape(), matrix().shape());
  EXPECT_EQ(prod(matrix(), none).shape(), matrix().shape());
  EXPECT_EQ(max(matrix(), none).shape(), matrix().shape());
  EXPECT_EQ(logsumexp(matrix(), none).to_vector<double>(), matrix().to_vector<double>());
}

TEST(Sum, KeepsIntegerDtypesAndCountsBools) {
  EXPECT_EQ(sum(cast(matrix(), kInt8)).dtype(), kInt8);
  EXPECT_EQ(prod(cast(matrix(), kInt16)).dtype(), kInt16);
  EXPECT_EQ(cumsum(cast(matrix(), kInt32)).dtype(), kInt32);
  const Tensor counted = sum(Tensor({true, false, true}));
  EXPECT_EQ(counted.dtype(), kInt64);
  EXPECT_EQ(counted.to<int>(), 2);
}

TEST(Reductions, OfAScalarAreTheScalar) {
  const Tensor x(3.0);
  EXPECT_EQ(sum(x).to<double>(), 3);
  EXPECT_EQ(mean(x).to<double>(), 3);
  EXPECT_EQ(prod(x).to<double>(), 3);
  EXPECT_EQ(max(x, {}, KeepDims::Yes).shape(), Shape{});
  EXPECT_EQ(logsumexp(x).to<double>(), 3);
  EXPECT_TRUE(any(Tensor(true)).to<bool>());
  expect_error([&] { sum(x, 0); }, "[Sum] axis 0 does not exist in a tensor of 0 dimensions");
}

TEST(Reductions, OfNothingAreTheNeutralElement) {
  EXPECT_EQ(sum(empty({0, 3}), 0).to_vector<double>(), (Values{0, 0, 0}));
  EXPECT_EQ(prod(empty({0, 3}), 0).to_vector<double>(), (Values{1, 1, 1}));
  EXPECT_TRUE(std::isnan(mean(empty({0})).to<float>()));
  EXPECT_EQ(logsumexp(empty({0})).to<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_FALSE(any(cast(empty({0}), kBool)).to<bool>());
  EXPECT_TRUE(all(cast(empty({0, 2}), kBool)).to<bool>());
}

TEST(Reductions, OfNothingHaveNoExtreme) {
  expect_error([] { max(empty({0})); }, "[Max] axis 0 of shape (0,) has no elements");
  expect_error([] { min(empty({2, 0}), 1); }, "[Min] axis 1 of shape (2, 0)");
  expect_error([] { argmax(empty({0})); }, "[ArgMax] axis 0 of shape (0,)");
  EXPECT_EQ(max(empty({0, 3}), 1).shape(), Shape{0});
  EXPECT_EQ(argmin(empty({0, 3}), 1).shape(), Shape{0});
}

TEST(Reductions, RejectBadAxes) {
  expect_error([] { sum(matrix(), 2); }, "[Sum] axis 2 does not exist");
  expect_error([] { mean(matrix(), -3); }, "[Mean] axis -3 does not exist");
  expect_error([] { prod(matrix(), {0, -2}); }, "[Prod] axis -2 is named twice");
  expect_error([] { logsumexp(matrix(), {1, 1}); }, "[LogSumExp] axis 1 is named twice");
  expect_error([] { argmax(matrix(), 2); }, "[ArgMax] axis 2 does not exist");
  expect_error([] { cumsum(matrix(), 2); }, "[CumSum] axis 2 does not exist");
  expect_error([] { cumsum(Tensor(1.0)); }, "[CumSum] axis 0 does not exist");
}

TEST(Reductions, RejectDtypesThatTheyCannotReduce) {
  expect_error([] { sum(Tensor({"a"})); }, "[Sum] input 0 is string");
  expect_error([] { mean(Tensor({"a"})); }, "[Mean] input 0 is string");
  expect_error([] { any(matrix()); }, "[Any] input 0 is float64");
  expect_error([] { logsumexp(Tensor({1, 2})); }, "[LogSumExp] input 0 is int32");
  expect_error([] { sum(Tensor()); }, "holds nothing", Code::FailedPrecondition);
}

TEST(Reductions, TakeSixteenBitFloats) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = cast(matrix(), dtype);
    for (const Tensor& y : {sum(x), mean(x), prod(x), max(x), min(x), logsumexp(x), cumsum(x)}) {
      EXPECT_EQ(y.dtype(), dtype);
    }
    EXPECT_EQ(prod(x).to<float>(), 720);
    EXPECT_EQ(argmax(x, 1).to_vector<int>(), (std::vector<int>{2, 2}));
  }
}

TEST(Mean, OfIntegersDividesAsDivDoes) {
  EXPECT_EQ(mean(Tensor({1, 2})).dtype(), kFloat64);
  EXPECT_EQ(mean(Tensor({1, 2})).to<double>(), 1.5);
  EXPECT_EQ(mean(cast(matrix(), kInt8)).dtype(), kFloat32);
  EXPECT_EQ(mean(Tensor({true, false})).to<float>(), 0.5f);
}

TEST(Mean, GradientSharesEvenly) {
  const Values gradient = gradient_of([](const Tensor& x) { return mean(x, 1); }, matrix());
  for (const double value : gradient) EXPECT_DOUBLE_EQ(value, 1.0 / 3);
}

TEST(Prod, GradientIsRightBesideZeros) {
  const auto product = [](const Tensor& x) { return prod(x); };
  EXPECT_EQ(gradient_of(product, Tensor({2.0, 3.0, 4.0})), (Values{12, 8, 6}));
  EXPECT_EQ(gradient_of(product, Tensor({2.0, 0.0, 4.0})), (Values{0, 8, 0}));
  EXPECT_EQ(gradient_of(product, Tensor({0.0, 0.0, 4.0})), (Values{0, 0, 0}));
  const auto columns = [](const Tensor& x) { return prod(x, 0); };
  EXPECT_EQ(gradient_of(columns, Tensor({{0.0, 2.0}, {3.0, 5.0}})), (Values{3, 5, 0, 2}));
}

TEST(Prod, SecondDerivativeIsRightBesideZeros) {
  const Tensor x({2.0, 0.0, 4.0});
  GradientTape outer;
  outer.watch(x);
  Tensor slope;
  {
    GradientTape inner;
    inner.watch(x);
    slope = inner.gradient(prod(x), x);  // x1 x2, x0 x2, x0 x1
  }
  EXPECT_EQ(outer.gradient(slope, x).dense().to_vector<double>(), (Values{4, 6, 2}));
}

TEST(Max, GradientIsSharedByEqualExtremes) {
  const Tensor x({{1.0, 3.0, 3.0}, {5.0, 4.0, 4.0}});
  EXPECT_EQ(gradient_of([](const Tensor& t) { return max(t, 1); }, x),
            (Values{0, 0.5, 0.5, 1, 0, 0}));
  EXPECT_EQ(gradient_of([](const Tensor& t) { return min(t, 0, KeepDims::Yes); }, x),
            (Values{1, 1, 1, 0, 0, 0}));
}

TEST(Max, OfBoolsAndIntegersKeepsTheDtype) {
  EXPECT_TRUE(max(Tensor({true, false})).to<bool>());
  EXPECT_EQ(min(Tensor({uint8_t{3}, uint8_t{200}})).to<int>(), 3);
  EXPECT_TRUE(std::isnan(max(Tensor({1.0, std::nan(""), 2.0})).to<double>()));
}

TEST(AnyAll, GoOverSeveralAxes) {
  const Tensor x({{true, false}, {false, false}});
  EXPECT_TRUE(any(x).to<bool>());
  EXPECT_FALSE(all(x).to<bool>());
  EXPECT_EQ(any(x, 1).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(all(x, 0, KeepDims::Yes).shape(), (Shape{1, 2}));
}

TEST(ArgMax, GivesTheFirstExtreme) {
  const Tensor x({{1.f, 7.f, 7.f}, {0.f, 0.f, -1.f}});
  EXPECT_EQ(argmax(x, 1).to_vector<int>(), (std::vector<int>{1, 0}));
  EXPECT_EQ(argmin(x, -1).to_vector<int>(), (std::vector<int>{0, 2}));
  EXPECT_EQ(argmax(Tensor({false, true, true})).to<int>(), 1);
  EXPECT_EQ(argmax(x).dtype(), kInt64);
}

TEST(LogSumExp, DoesNotOverflow) {
  EXPECT_NEAR(logsumexp(Tensor({1000.0, 1000.0})).to<double>(), 1000 + std::log(2.0), 1e-9);
  const Values gradient =
      gradient_of([](const Tensor& x) { return logsumexp(x); }, Tensor({1000.0, 1000.0}));
  EXPECT_NEAR(gradient[0], 0.5, 1e-12);
  EXPECT_NEAR(gradient[1], 0.5, 1e-12);
}

TEST(CumSum, GradientSumsFromTheBack) {
  EXPECT_EQ(cumsum(matrix(), 1).to_vector<double>(), (Values{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(cumsum(Tensor({true, true})).to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(gradient_of([](const Tensor& x) { return cumsum(x, -1); }, matrix()),
            (Values{3, 2, 1, 3, 2, 1}));
}

TEST(Spread, RejectsAShapeThatIsNotTheReduction) {
  const Attrs attrs = {
      {"axes", std::vector<int64_t>{0}}, {"all", false}, {"keep", false}, {"mean", false}};
  expect_error(
      [&] {
        apply(find_op("Spread"), {matrix(), matrix()}, attrs);
      },
      "[Spread] the first input must have shape (3,), got (2, 3)");
}

}  // namespace
}  // namespace cohort::internal
