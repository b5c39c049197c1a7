#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <thread>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "cohort/variable.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;

TEST(GradientTape, GivesTheSlope) {
  const Tensor x({1.0, 2.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(x * x, x).dense().to_vector<double>(), Doubles({2, 4, 6}));
}

TEST(GradientTape, GivesNothingForWhatWasNotWatched) {
  const Tensor x(3.0);
  const Tensor y(4.0);
  GradientTape tape;
  tape.watch(x);
  const Gradients gradients = tape.gradient(x * y, std::vector<Tensor>{x, y});
  EXPECT_EQ(gradients[0].dense().to<double>(), 4);
  EXPECT_FALSE(gradients[1].defined());
}

TEST(GradientTape, RecordsOnlyAfterWatch) {
  const Tensor x(3.0);
  GradientTape tape;
  const Tensor before = x * x;
  tape.watch(x);
  EXPECT_FALSE(tape.gradient(before, x).defined());
}

TEST(GradientTape, TakesATargetAsItsOwnSource) {
  const Tensor x({3.0, 4.0});
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(x, x).dense().to_vector<double>(), Doubles({1, 1}));
}

TEST(GradientTape, TakesIntermediateTensorsAsSources) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  const Tensor z = y * y * x;
  const Gradients gradients = tape.gradient(z, std::vector<Tensor>{y, x});
  EXPECT_EQ(gradients[0].dense().to<double>(), 2 * 4 * 2);
  EXPECT_EQ(gradients[1].dense().to<double>(), 5 * 16);
}

TEST(GradientTape, AddsUpEveryWayToTheTarget) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x + x;
  EXPECT_EQ(tape.gradient(y * x + y, x).dense().to<double>(), 4 * 3 + 2);
}

TEST(GradientTape, AddsUpSeveralTargets) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const std::vector<Tensor> targets{x * 2.0, x * x, Tensor(7.0)};
  EXPECT_EQ(tape.gradient(targets, std::vector<Tensor>{x})[0].dense().to<double>(), 2 + 6);
}

TEST(GradientTape, TakesOneTargetTwiceAsTwo) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_EQ(tape.gradient({y, y}, std::vector<Tensor>{x})[0].dense().to<double>(), 12);
}

TEST(GradientTape, WeighsTargetsByTheirOutputGradients) {
  const Tensor x({1.f, 2.f});
  GradientTape tape;
  tape.watch(x);
  const Gradients gradients =
      tape.gradient({x * x, sum(x)}, std::vector<Tensor>{x},
                    {.output_gradients = {Tensor({10.0, 100.0}), Tensor(1000.0)}});
  EXPECT_EQ(gradients[0].dense().dtype(), kFloat32);
  EXPECT_EQ(gradients[0].dense().to_vector<double>(), Doubles({1020, 1400}));
}

TEST(GradientTape, GivesNoneOrZerosForTheUnconnected) {
  const Tensor x({1.0, 2.0});
  const Tensor other({{1.f}, {2.f}});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  tape.watch(other);
  const Tensor y = sum(x * x);
  EXPECT_FALSE(tape.gradient(y, other).defined());
  const Tensor zero = tape.gradient(y, other, {.unconnected = Unconnected::Zero});
  EXPECT_EQ(zero.shape(), Shape({2, 1}));
  EXPECT_EQ(zero.dtype(), kFloat32);
  EXPECT_EQ(zero.to_vector<double>(), Doubles({0, 0}));
}

TEST(GradientTape, GivesZerosForUnreadVariables) {
  const Variable unread({1.f, 2.f});
  GradientTape tape;
  const Gradient gradient = tape.gradient(Tensor(1.0), unread, {.unconnected = Unconnected::Zero});
  EXPECT_EQ(gradient.dense().to_vector<double>(), Doubles({0, 0}));
}

TEST(GradientTape, GivesSeveralGradientsWhenPersistent) {
  const Tensor x(2.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = x * x;
  const Tensor z = y * x;
  EXPECT_EQ(tape.gradient(y, x).dense().to<double>(), 4);
  EXPECT_EQ(tape.gradient(z, x).dense().to<double>(), 12);
  EXPECT_EQ(tape.gradient(z * z, x).dense().to<double>(), 6 * 32);
}

TEST(GradientTape, GivesOneGradientOtherwise) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape.gradient(y, x);
  EXPECT_ERROR(Code::FailedPrecondition, "{.persistent = true}", tape.gradient(y, x));
  EXPECT_ERROR(Code::FailedPrecondition, "gradient() was already called",
               tape.gradient(y, Variable(1.0)));
}

TEST(GradientTape, NestsForSecondDerivatives) {
  const Tensor x({0.5, 1.5});
  GradientTape outer;
  outer.watch(x);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(x);
    first = inner.gradient(sin(x) * x, x);
  }
  const Tensor second = outer.gradient(first, x);
  for (const int64_t i : {0, 1}) {
    const double at = x.at<double>({i});
    EXPECT_NEAR(first.at<double>({i}), std::cos(at) * at + std::sin(at), 1e-12);
    EXPECT_NEAR(second.at<double>({i}), 2 * std::cos(at) - at * std::sin(at), 1e-12);
  }
}

TEST(GradientTape, NestsThreeDeep) {
  const Tensor x(2.0);
  GradientTape third;
  third.watch(x);
  GradientTape second;
  second.watch(x);
  GradientTape first;
  first.watch(x);
  const Tensor slope = first.gradient(x * x * x * x, x);
  const Tensor bend = second.gradient(slope, x);
  EXPECT_EQ(bend.to<double>(), 12 * 4);
  EXPECT_EQ(third.gradient(bend, x).dense().to<double>(), 24 * 2);
}

TEST(GradientTape, OnePersistentTapeRecordsItsOwnGradientsNot) {
  const Tensor x(2.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor slope = tape.gradient(x * x * x, x);
  EXPECT_FALSE(tape.gradient(slope, x).defined());
}

TEST(GradientTape, RecordsNothingWhileStopped) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  Tensor hidden;
  {
    const auto pause = tape.stop_recording();
    const auto deeper = tape.stop_recording();
    hidden = y * 10.0;
  }
  EXPECT_EQ(tape.gradient(y * 3.0 + hidden, x).dense().to<double>(), 12);
}

TEST(GradientTape, StopsOneTapeOfTwo) {
  const Tensor x(2.0);
  GradientTape outer;
  GradientTape inner;
  outer.watch(x);
  inner.watch(x);
  Tensor y;
  {
    const auto pause = inner.stop_recording();
    y = x * x;
  }
  EXPECT_FALSE(inner.gradient(y, x).defined());
  EXPECT_EQ(outer.gradient(y, x).dense().to<double>(), 4);
}

TEST(GradientTape, StartsAnewAfterReset) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor before = x * x;
  tape.reset();
  const Tensor unwatched = x * 5.0;
  tape.watch(x);
  const Gradient gradient = tape.gradient(before + unwatched + x * 3.0, x);
  EXPECT_EQ(gradient.dense().to<double>(), 3);
  tape.reset();
  tape.watch(x);
  EXPECT_EQ(tape.gradient(x * 7.0, x).dense().to<double>(), 7);
}

TEST(GradientTape, BelongsToItsThread) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  Tensor elsewhere;
  std::thread([&] { elsewhere = x * x; }).join();
  const Tensor here = x * 3.0;
  EXPECT_EQ(tape.gradient(here + elsewhere, x).dense().to<double>(), 3);
}

TEST(GradientTape, EndsInAnyOrder) {
  const Tensor x(2.0);
  auto outer = std::make_unique<GradientTape>();
  auto inner = std::make_unique<GradientTape>();
  outer->watch(x);
  inner->watch(x);
  outer.reset();
  EXPECT_EQ(inner->gradient(x * x, x).dense().to<double>(), 4);
  inner.reset();
  EXPECT_EQ((x * x).to<double>(), 4);
}

// Inside a variable's initializer nothing is recorded: the tapes are set aside.
TEST(GradientTape, EndsWhileItIsSetAside) {
  const Tensor x(2.0);
  auto outer = std::make_unique<GradientTape>();
  auto inner = std::make_unique<GradientTape>();
  outer->watch(x);
  const Variable variable([&] {
    inner.reset();
    return x * 2.0;
  });
  EXPECT_EQ(outer->gradient(variable * x, x).dense().to<double>(), 4);
}

TEST(GradientTape, FreesWhatItHeldOnceSpent) {
  bool released = false;
  const std::vector<double> memory{1, 2, 3};
  GradientTape tape;
  Tensor target;
  {
    const Tensor x =
        Tensor::from_memory(memory.data(), kFloat64, {3}, [&released] { released = true; });
    tape.watch(x);
    target = sum(x * x);
  }
  EXPECT_FALSE(released);
  tape.gradient(target, target);
  EXPECT_TRUE(released);
}

TEST(GradientTape, FreesWhatItHeldOnReset) {
  bool released = false;
  const std::vector<double> memory{1, 2, 3};
  GradientTape tape;
  tape.watch(Tensor::from_memory(memory.data(), kFloat64, {3}, [&released] { released = true; }));
  EXPECT_FALSE(released);
  tape.reset();
  EXPECT_TRUE(released);
}

TEST(GradientTape, WatchesFloatsOnly) {
  GradientTape tape;
  EXPECT_ERROR(Code::InvalidArgument, "only floating values can be watched, got int32; cast()",
               tape.watch(Tensor(1)));
  EXPECT_ERROR(Code::InvalidArgument, "only floating values can be watched, got int64",
               tape.watch(Variable(int64_t{1})));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", tape.watch(Tensor()));
}

TEST(GradientTape, NamesTheOpThatHasNoGradient) {
  const Tensor x({3.0, 1.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  EXPECT_ERROR(Code::Unimplemented,
               "[Unique] has no gradient because its result changes in steps; apply "
               "stop_gradient() to its inputs",
               tape.gradient(sum(unique(x).values), x));
}

TEST(GradientTape, PassesAnOpWithoutGradientAfterStopGradient) {
  const Tensor x({3.0, 1.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(unique(stop_gradient(x)).values) * x;
  EXPECT_EQ(tape.gradient(y, x).dense().to_vector<double>(), Doubles({4, 4, 4}));
}

TEST(GradientTape, TakesAStoppedTensorAsSource) {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor stopped = stop_gradient(x * x);
  const Gradients gradients = tape.gradient(stopped * x, std::vector<Tensor>{stopped, x});
  EXPECT_EQ(gradients[0].dense().to<double>(), 3);
  EXPECT_EQ(gradients[1].dense().to<double>(), 9);
}

TEST(GradientTape, ChecksOutputGradientsBeforeItIsSpent) {
  const Tensor x({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  EXPECT_ERROR(Code::InvalidArgument, "output gradient 0 has shape (3,), but its target has (2,)",
               tape.gradient(y, x, {.output_gradients = {ones({3})}}));
  EXPECT_ERROR(Code::InvalidArgument, "one output gradient per target, got 2 for 1",
               tape.gradient(y, x, {.output_gradients = {ones({2}), ones({2})}}));
  EXPECT_ERROR(Code::InvalidArgument, "a target is int32, but only floating values have gradients",
               tape.gradient(Tensor(1), x));
  EXPECT_EQ(tape.gradient(y, x).dense().to_vector<double>(), Doubles({2, 4}));
}

TEST(Gradient, SaysWhatItIsNot) {
  EXPECT_ERROR(Code::FailedPrecondition, "Unconnected::Zero", Gradient().dense());
  EXPECT_ERROR(Code::FailedPrecondition, "undefined, not rows", Gradient().slices());
  EXPECT_ERROR(Code::FailedPrecondition, "a tensor, not rows", Gradient(Tensor(1.0)).slices());
}

TEST(Gradient, Prints) {
  std::ostringstream out;
  out << Gradient() << ' ' << Gradient(Tensor({1.f}));
  EXPECT_EQ(out.str(), "None Tensor([1.], shape=(1,), dtype=float32)");
}

}  // namespace
}  // namespace cohort
