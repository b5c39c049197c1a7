// Tapes and variables; gradients that are rows.

#include <gtest/gtest.h>

#include "cohort/gradient.h"
#include "cohort/nn_ops.h"
#include "cohort/ops.h"
#include "cohort/variable.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;

const void* memory_of(const Variable& variable) {
  const Tensor value = variable;
  return value.data<double>().data();
}

TEST(VariableGradient, NeedsNoWatchWhenTrainable) {
  const Variable w({1.0, 2.0});
  const Variable frozen({1.0, 2.0}, {.trainable = false});
  GradientTape tape;
  const Gradients gradients = tape.gradient(w * w * frozen, std::vector<Variable>{w, frozen});
  EXPECT_EQ(gradients[0].dense().to_vector<double>(), Doubles({2, 8}));
  EXPECT_FALSE(gradients[1].defined());
}

TEST(VariableGradient, TakesSourcesInBraces) {
  const Variable w(2.0), b(3.0);
  GradientTape tape({.persistent = true});
  const Tensor loss = w * w + b;
  EXPECT_EQ(tape.gradient(loss, {w, b})[0].dense().to<double>(), 4);
  EXPECT_EQ(tape.gradient(loss, {w}).size(), 1u);
  EXPECT_EQ(tape.gradient(loss, {loss, loss * 1.0}).size(), 2u);
}

TEST(VariableGradient, ComesFromWatchOtherwise) {
  const Variable frozen(3.0, {.trainable = false});
  GradientTape tape;
  tape.watch(frozen);
  EXPECT_EQ(tape.gradient(frozen * frozen, frozen).dense().to<double>(), 6);
}

TEST(VariableGradient, IsLeftOutWhenAskedTo) {
  const Variable w(3.0);
  const Variable chosen(3.0);
  GradientTape tape({.watch_variables = false});
  tape.watch(chosen);
  const Gradients gradients = tape.gradient(w * chosen, std::vector<Variable>{w, chosen});
  EXPECT_FALSE(gradients[0].defined());
  EXPECT_EQ(gradients[1].dense().to<double>(), 3);
}

TEST(VariableGradient, OfIntegersIsNothing) {
  const Variable counter(int64_t{3});
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  EXPECT_FALSE(tape.gradient(x * counter, counter).defined());
}

TEST(VariableGradient, CountsEveryRead) {
  Variable w(3.0);
  GradientTape tape;
  const Tensor before = w * 2.0;
  w.assign(10.0);
  const Tensor after = w * w;
  EXPECT_EQ(tape.gradient(before + after, w).dense().to<double>(), 2 + 20);
}

TEST(VariableGradient, CountsReadsAroundChangesInPlace) {
  Variable w({3.0, 4.0});
  GradientTape tape;
  const Tensor before = w * w;
  w.assign_add(1.0);
  const Tensor after = w * w;
  EXPECT_EQ(tape.gradient(before + after, w).dense().to_vector<double>(), Doubles({14, 18}));
}

TEST(VariableGradient, EndsAtAnAssignment) {
  Variable w(3.0);
  const Tensor x(5.0);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  w.assign(x * 2.0);
  const Tensor y = w * w;
  EXPECT_EQ(tape.gradient(y, w).dense().to<double>(), 20);
  EXPECT_FALSE(tape.gradient(y, x).defined());
}

TEST(VariableGradient, EndsWhereAVariableIsUpdatedFromItself) {
  Variable w(4.0);
  GradientTape tape;
  w.assign(w * 0.5);
  w.assign_add(w * 0.5);
  EXPECT_EQ(tape.gradient(w * w, w).dense().to<double>(), 6);
}

TEST(VariableGradient, TellsVariablesWithOneValueApart) {
  Variable a(2.0);
  Variable b(0.0);
  const Tensor value(3.0);
  a.assign(value);
  b.assign(value);
  GradientTape tape({.persistent = true});
  const Tensor y = a * a * b;
  EXPECT_EQ(tape.gradient(y, a).dense().to<double>(), 18);
  EXPECT_EQ(tape.gradient(y, b).dense().to<double>(), 9);
}

TEST(VariableGradient, DoesNotReachIntoTheInitializer) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Variable w([&] { return x * 3.0; });
  const Tensor y = w * x;
  EXPECT_EQ(tape.gradient(y, x).dense().to<double>(), 6);
}

TEST(VariableGradient, HasSecondDerivatives) {
  const Variable w(2.0);
  GradientTape outer;
  Tensor slope;
  {
    GradientTape inner;
    slope = inner.gradient(w * w * w, w);
  }
  EXPECT_EQ(outer.gradient(slope, w).dense().to<double>(), 12);
}

// A spent tape holds no variable's value, so that the update after it works in place.
TEST(VariableGradient, LeavesNothingOnASpentTape) {
  Variable w({1.0, 2.0});
  const void* memory = memory_of(w);
  GradientTape tape;
  const Tensor gradient = tape.gradient(sum(w * w), w);
  w.assign_sub(gradient);
  EXPECT_EQ(memory_of(w), memory);
}

TEST(SparseGradient, OfATableIsItsRows) {
  const Variable table(reshape(range(0.0, 8.0, 1.0), {4, 2}));
  GradientTape tape;
  const Tensor rows = nn::embedding_lookup(table, Tensor({{3, 1}, {3, 3}}));
  const Gradient gradient = tape.gradient(sum(rows * rows), table);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.slices().indices.to_vector<int>(), (std::vector<int>{3, 1, 3, 3}));
  EXPECT_EQ(gradient.slices().indices.dtype(), kInt64);
  EXPECT_EQ(gradient.slices().values.shape(), Shape({4, 2}));
  EXPECT_EQ(gradient.slices().dense_shape, Shape({4, 2}));
  EXPECT_EQ(gradient.dense().to_vector<double>(), Doubles({0, 0, 4, 6, 0, 0, 36, 42}));
}

TEST(SparseGradient, PlusSparseStaysSparse) {
  const Variable table(zeros({4, 1}));
  GradientTape tape;
  const Tensor y = sum(gather(table, Tensor({0}))) + sum(gather(table, Tensor({2, 0}))) * 2.f;
  const Gradient gradient = tape.gradient(y, table);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.slices().indices.size(), 3);
  EXPECT_EQ(gradient.dense().to_vector<double>(), Doubles({3, 0, 2, 0}));
}

TEST(SparseGradient, PlusDenseIsDense) {
  const Variable table(zeros({3, 1}));
  GradientTape tape;
  const Tensor y = sum(gather(table, Tensor({1, 1}))) + sum(table * 5.f);
  const Gradient gradient = tape.gradient(y, table);
  EXPECT_FALSE(gradient.is_sparse());
  EXPECT_EQ(gradient.dense().to_vector<double>(), Doubles({5, 7, 5}));
}

TEST(SparseGradient, OverSeveralReadsStaysSparse) {
  Variable table(ones({3, 1}));
  GradientTape tape;
  const Tensor before = sum(gather(table, Tensor({0})));
  table.assign_add(1.f);
  const Tensor after = sum(gather(table, Tensor({2})));
  const Gradient gradient = tape.gradient(before + after, table);
  ASSERT_TRUE(gradient.is_sparse());
  EXPECT_EQ(gradient.slices().indices.size(), 2);
  EXPECT_EQ(gradient.dense().to_vector<double>(), Doubles({1, 0, 1}));
}

TEST(SparseGradient, GoesOnAsADenseOne) {
  const Variable table({{1.0}, {2.0}, {3.0}});
  GradientTape tape;
  const Gradient gradient = tape.gradient(sum(gather(table * table, Tensor({2, 0, 2}))), table);
  EXPECT_FALSE(gradient.is_sparse());
  EXPECT_EQ(gradient.dense().to_vector<double>(), Doubles({2, 0, 12}));
}

TEST(SparseGradient, HasSecondDerivatives) {
  const Variable table({{1.0}, {2.0}, {3.0}});
  GradientTape outer;
  Tensor slope;
  {
    GradientTape inner;
    const Tensor rows = gather(table, Tensor({2, 0, 2}));
    slope = inner.gradient(sum(rows * rows * rows), table);
  }
  EXPECT_EQ(slope.to_vector<double>(), Doubles({3, 0, 54}));
  EXPECT_EQ(outer.gradient(slope, table).dense().to_vector<double>(), Doubles({6, 0, 36}));
}

}  // namespace
}  // namespace cohort
