#include "ops/conditional_accumulator.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

Cancellation& never() { return cancellation_of(nullptr); }

Accumulator::Kind kind(const Shape& shape = Shape::unknown(), bool mean = true) {
  return {.dtype = kFloat32, .shape = shape, .mean = mean};
}

// R = 2 of N = 3 workers, two tokens to begin with, learning rate 0.5; gradients a = 2, b = 4,
// c = 6. The worker that drew an initial token wastes one batch; from there on any two complete a
// step.
TEST(DenseAccumulator, DropsWhatASlowWorkerComputedForAnEarlierStep) {
  DenseAccumulator accumulator("g", kind());
  float variable = 10;
  int64_t local_a = 0;
  int64_t local_b = 0;
  int64_t local_c = 0;
  accumulator.apply(2.f, local_a);
  EXPECT_EQ(accumulator.num_accumulated(), 1);
  accumulator.apply(4.f, local_b);
  EXPECT_EQ(accumulator.num_accumulated(), 2);
  variable -= 0.5f * accumulator.take(2, never()).to<float>();
  EXPECT_EQ(variable, 8.5f);
  EXPECT_EQ(accumulator.num_accumulated(), 0);
  accumulator.apply(6.f, local_c);
  EXPECT_EQ(accumulator.num_accumulated(), 0);
  local_c = 1;
  accumulator.apply(2.f, local_a);
  accumulator.apply(4.f, local_b);
  EXPECT_EQ(accumulator.num_accumulated(), 0);
  local_a = local_b = 1;
  accumulator.apply(6.f, local_c);
  accumulator.apply(2.f, local_a);
  EXPECT_EQ(accumulator.take(2, never()).to<float>(), 4.f);
}

TEST(DenseAccumulator, DividesByHowManyThereAre) {
  DenseAccumulator accumulator("g", kind());
  for (const float value : {1.f, 2.f, 6.f}) accumulator.apply(Tensor({value, 0.f}), 0);
  EXPECT_EQ(accumulator.take(1, never()).to_vector<float>(), (std::vector<float>{3, 0}));
  EXPECT_EQ(accumulator.num_accumulated(), 0);
}

TEST(DenseAccumulator, GivesTheSumWhenAskedTo) {
  DenseAccumulator accumulator("g", kind({}, false));
  for (const float value : {1.f, 2.f, 6.f}) accumulator.apply(value, 0);
  EXPECT_EQ(accumulator.take(2, never()).to<float>(), 9.f);
}

TEST(DenseAccumulator, LeavesTheGradientsAsTheyWere) {
  DenseAccumulator accumulator("g", kind());
  const Tensor first({1.f, 2.f});
  accumulator.apply(first, 0);
  const Tensor alone = accumulator.take(1, never());
  accumulator.apply(first, 1);
  accumulator.apply(first, 1);
  accumulator.apply(first, 1);
  EXPECT_EQ(accumulator.take(3, never()).to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(alone.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(DenseAccumulator, KeepsTheShapeOfTheFirstGradient) {
  DenseAccumulator accumulator("grads", kind({-1, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "'grads' have shape (None, 2), got (3,)",
               accumulator.apply(Tensor({1.f, 2.f, 3.f}), 0));
  accumulator.apply(Tensor({{1.f, 2.f}}), 0);
  const Tensor other({{1.f, 2.f}, {3.f, 4.f}});
  EXPECT_ERROR(Code::InvalidArgument, "'grads' have shape (1, 2), got (2, 2)",
               accumulator.apply(other, 0));
  accumulator.take(1, never());
  EXPECT_ERROR(Code::InvalidArgument, "got (2, 2)", accumulator.apply(other, 1));
  accumulator.apply(other, 0);  // stale: not even looked at
}

TEST(DenseAccumulator, WaitsForWhatIsRequired) {
  DenseAccumulator accumulator("g", kind());
  EXPECT_ERROR(Code::InvalidArgument, "at least 1 gradient must be taken from 'g', got 0",
               accumulator.take(0, never()));
  const auto take = [&](int64_t count) {
    const size_t before = accumulator.pending_takes();
    auto taken = std::async(std::launch::async,
                            [&, count] { return accumulator.take(count, never()).to<float>(); });
    while (accumulator.pending_takes() == before) std::this_thread::yield();
    return taken;
  };
  auto first = take(2);
  auto second = take(1);
  accumulator.apply(1.f, 0);
  EXPECT_EQ(accumulator.num_accumulated(), 1);  // the second does not overtake the first
  accumulator.apply(3.f, 0);
  EXPECT_EQ(first.get(), 2.f);
  accumulator.apply(7.f, 1);
  EXPECT_EQ(second.get(), 7.f);
}

TEST(DenseAccumulator, MakesDoWithLessWhenThereIsALimit) {
  DenseAccumulator accumulator("g", kind());
  auto taken =
      std::async(std::launch::async, [&] { return accumulator.take(3, never()).to<float>(); });
  accumulator.apply(1.f, 0);
  accumulator.apply(3.f, 0);
  while (accumulator.pending_takes() == 0) std::this_thread::yield();
  EXPECT_EQ(accumulator.num_accumulated(), 2);
  accumulator.set_limit(2);
  EXPECT_EQ(taken.get(), 2.f);
  accumulator.apply(5.f, 1);
  accumulator.set_limit(5);
  EXPECT_EQ(accumulator.take(1, never()).to<float>(), 5.f);  // a limit asks for no more
}

TEST(DenseAccumulator, CancelsTheTakesThatWaitAndNoLaterOnes) {
  DenseAccumulator accumulator("g", kind());
  const auto wait = [&] { return accumulator.take(1, never()); };
  auto first = std::async(std::launch::async, wait);
  auto second = std::async(std::launch::async, wait);
  while (accumulator.pending_takes() < 2) std::this_thread::yield();
  accumulator.cancel_pending_takes();
  EXPECT_ERROR(Code::Cancelled, "of 'g' were cancelled", first.get());
  EXPECT_ERROR(Code::Cancelled, "of 'g' were cancelled", second.get());
  accumulator.apply(5.f, 0);
  EXPECT_EQ(wait().to<float>(), 5.f);
}

TEST(DenseAccumulator, StopsWaitingWhenTheRunIsCancelled) {
  DenseAccumulator accumulator("g", kind());
  Cancellation cancellation;
  auto taken = std::async(std::launch::async, [&] { return accumulator.take(1, cancellation); });
  while (accumulator.pending_takes() == 0) std::this_thread::yield();
  cancellation.cancel({.code = Code::Cancelled, .message = "over"});
  EXPECT_ERROR(Code::Cancelled, "over", taken.get());
  accumulator.apply(5.f, 0);
  EXPECT_EQ(accumulator.take(1, never()).to<float>(), 5.f);
}

TEST(DenseAccumulator, GoesToTheStepThatItIsTold) {
  DenseAccumulator accumulator("g", kind());
  accumulator.set_global_step(5);
  accumulator.apply(1.f, 4);
  EXPECT_EQ(accumulator.num_accumulated(), 0);
  accumulator.apply(1.f, 5);
  EXPECT_EQ(accumulator.num_accumulated(), 1);
  accumulator.set_global_step(2);
  accumulator.apply(1.f, 2);
  EXPECT_EQ(accumulator.num_accumulated(), 2);
}

Tensor indices(std::vector<int64_t> values) { return Tensor::from(std::move(values)); }

TEST(SparseAccumulator, DividesEachRowByTheGradientsThatHadIt) {
  SparseAccumulator accumulator("g", kind({10, 2}));
  accumulator.apply(Tensor({{2.f, 2.f}, {4.f, 4.f}}), indices({7, 1}), 0);
  accumulator.apply(Tensor({{6.f, 8.f}}), indices({1}), 0);
  EXPECT_EQ(accumulator.num_accumulated(), 2);
  const SparseAccumulator::Rows rows = accumulator.take(2, never());
  EXPECT_EQ(rows.indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 7}));
  EXPECT_EQ(rows.values.to_vector<float>(), (std::vector<float>{5, 6, 2, 2}));
  EXPECT_EQ(accumulator.num_accumulated(), 0);
}

TEST(SparseAccumulator, AddsUpARowThatComesTwiceInOneGradient) {
  SparseAccumulator accumulator("g", kind());
  accumulator.apply(Tensor({{1.f}, {2.f}, {3.f}}), indices({4, 4, 0}), 0);
  accumulator.apply(Tensor({{5.f}}), indices({4}), 0);
  const SparseAccumulator::Rows rows = accumulator.take(1, never());
  EXPECT_EQ(rows.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(rows.values.to_vector<float>(), (std::vector<float>{3, 4}));
}

TEST(SparseAccumulator, GivesTheSumWhenAskedTo) {
  SparseAccumulator accumulator("g", kind(Shape::unknown(), false));
  accumulator.apply(Tensor({1.f, 2.f}), indices({3, 5}), 0);
  accumulator.apply(Tensor({4.f}), indices({3}), 0);
  EXPECT_EQ(accumulator.take(2, never()).values.to_vector<float>(), (std::vector<float>{5, 2}));
}

TEST(SparseAccumulator, HoldsManyRowsAndStartsAnewAfterATake) {
  SparseAccumulator accumulator("g", kind());
  for (int64_t i = 0; i < 100; ++i) {
    accumulator.apply(Tensor({{static_cast<float>(i)}}), indices({99 - i}), 0);
  }
  const SparseAccumulator::Rows rows = accumulator.take(100, never());
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(rows.indices.at<int64_t>({i}), i);
    EXPECT_EQ(rows.values.at<float>({i, 0}), static_cast<float>(99 - i));
  }
  accumulator.apply(Tensor({{1.f}}), indices({2}), 0);
  EXPECT_EQ(accumulator.num_accumulated(), 0);
  accumulator.apply(Tensor({{1.f}}), indices({2}), 1);
  EXPECT_EQ(accumulator.take(1, never()).values.to_vector<float>(), (std::vector<float>{1}));
}

TEST(SparseAccumulator, TakesGradientsWithoutRows) {
  SparseAccumulator accumulator("g", kind({4, 2}));
  accumulator.apply(Tensor::from(std::vector<float>{}, {0, 2}), indices({}), 0);
  EXPECT_EQ(accumulator.num_accumulated(), 1);
  EXPECT_EQ(accumulator.take(1, never()).values.shape(), (Shape{0, 2}));
}

TEST(SparseAccumulator, RefusesRowsThatDoNotFit) {
  SparseAccumulator accumulator("rows", kind({4, 2}));
  EXPECT_ERROR(Code::InvalidArgument, "index 4 is not a row of 'rows'",
               accumulator.apply(Tensor({{1.f, 2.f}}), indices({4}), 0));
  EXPECT_ERROR(Code::InvalidArgument, "index -1 is not a row of 'rows'",
               accumulator.apply(Tensor({{1.f, 2.f}}), indices({-1}), 0));
  EXPECT_ERROR(Code::InvalidArgument, "'rows' have shape (4, 2), got (4, 3)",
               accumulator.apply(Tensor({{1.f, 2.f, 3.f}}), indices({1}), 0));
  EXPECT_ERROR(Code::InvalidArgument, "values of shape (1, 2) and indices of shape (2,)",
               accumulator.apply(Tensor({{1.f, 2.f}}), indices({1, 2}), 0));
  EXPECT_EQ(accumulator.num_accumulated(), 0);
}

}  // namespace
}  // namespace cohort::internal
