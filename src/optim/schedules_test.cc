#include <gtest/gtest.h>

#include <cmath>

#include "cohort/ops.h"
#include "cohort/optim.h"
#include "support/expect_error.h"

namespace cohort::optim {
namespace {

double rate_at(const Schedule& schedule, int64_t step) {
  const Tensor rate = schedule(Tensor(step));
  EXPECT_EQ(rate.shape(), Shape());
  return rate.to<double>();
}

TEST(ConstantRate, IsTheSameAtEveryStep) {
  const LearningRate rate = 0.3;
  EXPECT_EQ(rate.at(Tensor(int64_t{0})).to<double>(), 0.3);
  EXPECT_EQ(rate.at(Tensor(int64_t{1000})).to<double>(), 0.3);
}

TEST(ExponentialDecay, ShrinksByARatio) {
  const Schedule smooth =
      exponential_decay({.initial_rate = 2, .decay_steps = 10, .decay_rate = 0.5});
  EXPECT_DOUBLE_EQ(rate_at(smooth, 0), 2);
  EXPECT_DOUBLE_EQ(rate_at(smooth, 5), 2 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(rate_at(smooth, 10), 1);
  EXPECT_DOUBLE_EQ(rate_at(smooth, 30), 0.25);
}

TEST(ExponentialDecay, GoesInJumpsAsAStaircase) {
  const Schedule stairs = exponential_decay(
      {.initial_rate = 2, .decay_steps = 10, .decay_rate = 0.5, .staircase = true});
  EXPECT_DOUBLE_EQ(rate_at(stairs, 9), 2);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 10), 1);
  EXPECT_DOUBLE_EQ(rate_at(stairs, 29), 0.5);
}

TEST(PolynomialDecay, EndsAtItsEndRate) {
  const Schedule line = polynomial_decay({.initial_rate = 1, .end_rate = 0.2, .decay_steps = 8});
  EXPECT_DOUBLE_EQ(rate_at(line, 0), 1);
  EXPECT_DOUBLE_EQ(rate_at(line, 2), 0.8);
  EXPECT_DOUBLE_EQ(rate_at(line, 8), 0.2);
  EXPECT_DOUBLE_EQ(rate_at(line, 100), 0.2);
  const Schedule curve =
      polynomial_decay({.initial_rate = 1, .end_rate = 0, .decay_steps = 4, .power = 2});
  EXPECT_DOUBLE_EQ(rate_at(curve, 1), 0.5625);
}

TEST(CosineDecay, FollowsHalfAWave) {
  const Schedule wave = cosine_decay({.initial_rate = 2, .decay_steps = 10, .alpha = 0.1});
  EXPECT_DOUBLE_EQ(rate_at(wave, 0), 2);
  EXPECT_NEAR(rate_at(wave, 5), 2 * (0.5 * 0.9 + 0.1), 1e-12);
  EXPECT_NEAR(rate_at(wave, 10), 0.2, 1e-12);
  EXPECT_NEAR(rate_at(wave, 11), 0.2, 1e-12);
}

TEST(PiecewiseConstant, ChangesAfterItsBoundaries) {
  const Schedule steps = piecewise_constant({10, 20}, {1, 0.5, 0.1});
  EXPECT_EQ(rate_at(steps, 0), 1);
  EXPECT_EQ(rate_at(steps, 10), 1);
  EXPECT_EQ(rate_at(steps, 11), 0.5);
  EXPECT_EQ(rate_at(steps, 20), 0.5);
  EXPECT_EQ(rate_at(steps, 21), 0.1);
  EXPECT_EQ(rate_at(piecewise_constant({}, {0.7}), 3), 0.7);
}

TEST(Warmup, RisesToWhatFollows) {
  const Schedule flat = warmup(4, 2.0);
  EXPECT_DOUBLE_EQ(rate_at(flat, 0), 0.5);
  EXPECT_DOUBLE_EQ(rate_at(flat, 2), 1.5);
  EXPECT_DOUBLE_EQ(rate_at(flat, 3), 2);
  EXPECT_DOUBLE_EQ(rate_at(flat, 50), 2);
  const Schedule decaying =
      warmup(2, exponential_decay({.initial_rate = 8, .decay_steps = 1, .decay_rate = 0.5}));
  EXPECT_DOUBLE_EQ(rate_at(decaying, 0), 4);
  EXPECT_DOUBLE_EQ(rate_at(decaying, 1), 8);  // the peak
  EXPECT_DOUBLE_EQ(rate_at(decaying, 2), 4);
}

TEST(Schedules, NameWrongOptions) {
  EXPECT_ERROR(Code::InvalidArgument,
               "[ExponentialDecay] the number of steps must be positive, got 0",
               exponential_decay({.decay_steps = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "[PolynomialDecay]", polynomial_decay({.decay_steps = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[CosineDecay]", cosine_decay({.decay_steps = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "[Warmup]", warmup(0, 0.1));
  EXPECT_ERROR(Code::InvalidArgument, "[PiecewiseConstant] 2 boundaries need 3 rates, got 2",
               piecewise_constant({1, 2}, {0.1, 0.2}));
  EXPECT_ERROR(Code::InvalidArgument, "boundaries must increase, but 2 follows 2",
               piecewise_constant({2, 2}, {0.1, 0.2, 0.3}));
}

}  // namespace
}  // namespace cohort::optim
