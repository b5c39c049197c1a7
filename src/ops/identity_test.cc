#include <limits>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "support/expect_error.h"

namespace cohort::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Gradient gradient_through(Tensor (*pass)(const Tensor&)) {
  const Tensor x({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(pass(x) * x, x);
}

TEST(Identity, PassesValuesAndGradients) {
  EXPECT_EQ(identity(Tensor({1, 2})).to_vector<int>(), (std::vector<int>{1, 2}));
  EXPECT_EQ(identity(Tensor({"a", "b"})).to_vector<std::string>()[1], "b");
  const Gradient gradient = gradient_through([](const Tensor& x) { return identity(x); });
  EXPECT_EQ(gradient.dense().to_vector<double>(), (std::vector<double>{2, 4}));
}

TEST(StopGradient, PassesValuesButNoGradient) {
  const Gradient gradient = gradient_through([](const Tensor& x) { return stop_gradient(x); });
  EXPECT_EQ(gradient.dense().to_vector<double>(), (std::vector<double>{1, 2}));
  EXPECT_EQ(stop_gradient(Tensor("text")).to<std::string>(), "text");
}

TEST(Group, IsEmptyWhateverItsParts) {
  EXPECT_EQ(group({Tensor(1.0), Tensor({"a"})}).size(), 0);
  EXPECT_EQ(group({}).shape(), Shape{0});
  expect_error([] { group({Tensor()}); }, "holds nothing", Code::FailedPrecondition);
}

TEST(Print, WritesLabelAndValueToStderr) {
  ::testing::internal::CaptureStderr();
  const Tensor passed = print(Tensor({1.5f, 2.f}), "x is");
  print(Tensor(7));
  print(Tensor("text"), "t");
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(written.find("x is [1.5 2. ]\n7\nt "), 0u) << written;
  EXPECT_NE(written.find("text"), std::string::npos) << written;
  EXPECT_EQ(passed.to_vector<float>(), (std::vector<float>{1.5f, 2.f}));
}

TEST(Print, PassesTheGradient) {
  ::testing::internal::CaptureStderr();
  const Gradient gradient = gradient_through([](const Tensor& x) { return print(x); });
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(gradient.dense().to_vector<double>(), (std::vector<double>{2, 4}));
}

TEST(CheckNumerics, PassesFiniteValues) {
  EXPECT_EQ(check_numerics(Tensor({1.0, 2.0}), "x").to_vector<double>()[1], 2);
  const Gradient gradient =
      gradient_through([](const Tensor& x) { return check_numerics(x, "x"); });
  EXPECT_EQ(gradient.dense().to_vector<double>(), (std::vector<double>{2, 4}));
}

TEST(CheckNumerics, CountsWhatIsNotFinite) {
  const Tensor x({{1.0, kNan, kInfinity}, {-kInfinity, kNan, -kInfinity}});
  expect_error([&] { check_numerics(x, "the loss"); },
               "[CheckNumerics] the loss: 2 NaN and 3 infinite among 6 values of shape (2, 3)");
  expect_error([] { check_numerics(Tensor({1}), "x"); }, "is int32");
}

TEST(NumericsGuard, NamesTheOpThatMadeTheFirstNan) {
  const NumericsGuard guard;
  expect_error(
      [] {
        exp(log(Tensor({1.0, -1.0}) * 2)) + 1;
      },
      "[Log] made 1 NaN and 0 infinite among 2 values of shape (2,) from finite inputs");
  expect_error([] { Tensor({1.0, 2.0}) / 0.0; }, "[Div] made 0 NaN and 2 infinite");
}

TEST(NumericsGuard, TellsWhenTheNanIsOlder) {
  const Tensor old({1.0, kNan});
  const NumericsGuard guard;
  expect_error([&] { Tensor({1.0, 2.0}) + old; }, "[Add] input 1 already had 1 NaN");
}

TEST(NumericsGuard, NamesTheOpOfABackwardPass) {
  const Tensor x({0.0, 1.0});
  const NumericsGuard guard;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sqrt(x);
  expect_error([&] { tape.gradient(y, x); }, "[Div] made 0 NaN and 1 infinite");
}

TEST(NumericsGuard, EndsWithItsScope) {
  { const NumericsGuard guard; }
  EXPECT_NO_THROW(log(Tensor({-1.0})));
}

}  // namespace
}  // namespace cohort::internal
