// What an optimizer keeps, what it checks, and minimize().

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cohort/ops.h"
#include "cohort/optim.h"
#include "support/expect_error.h"

namespace cohort::optim {
namespace {

using Doubles = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

TEST(Optimizer, CountsItsUpdates) {
  const Variable v({1.0, 2.0});
  Sgd optimizer;
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 0);
  EXPECT_EQ(optimizer.iterations().dtype(), kInt64);
  EXPECT_FALSE(optimizer.iterations().trainable());
  optimizer.apply_gradients({ones({2})}, {v});
  optimizer.apply_gradients({ones({2})}, {v});
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 2);
}

TEST(Optimizer, AsksItsScheduleBeforeEachUpdate) {
  const Variable v(0.0);
  Sgd optimizer({.learning_rate = piecewise_constant({0, 1}, {1.0, 10.0, 100.0})});
  for (const double rate : {1.0, 10.0, 100.0, 100.0}) {
    EXPECT_EQ(optimizer.learning_rate().to<double>(), rate);
    optimizer.apply_gradients({Tensor(1.0)}, {v});
  }
  EXPECT_EQ(values(v), Doubles({-211}));
  optimizer.set_learning_rate(1.0);
  optimizer.apply_gradients({Tensor(1.0)}, {v});
  EXPECT_EQ(values(v), Doubles({-212}));
}

TEST(Optimizer, MakesSlotsAtTheFirstUpdateOfAVariable) {
  const Variable a({1.0, 2.0}, {.name = "a"});
  const Variable b({1.f}, {.name = "b"});
  Sgd optimizer({.momentum = 0.9});
  EXPECT_EQ(optimizer.variables().size(), 1u);
  EXPECT_ERROR(Code::NotFound,
               "slot 'momentum' of variable 'a' does not exist: slots are made at the first",
               optimizer.slot(a, "momentum"));
  optimizer.apply_gradients({ones({2}), Gradient()}, {a, b});
  EXPECT_EQ(values(optimizer.slot(a, "momentum")), Doubles({1, 1}));
  EXPECT_ERROR(Code::NotFound, "slot 'speed' of variable 'a' does not exist",
               optimizer.slot(a, "speed"));
  EXPECT_ERROR(Code::NotFound, "of variable 'b'", optimizer.slot(b, "momentum"));
  optimizer.apply_gradients({ones({2}), ones({1})}, {a, b});
  std::vector<std::string> names;
  for (const Variable& variable : optimizer.variables()) names.push_back(variable.name());
  EXPECT_EQ(names, (std::vector<std::string>{"iterations", "a/momentum", "b/momentum"}));
}

TEST(Optimizer, KeepsSlotsOfVariablesWithOneNameApart) {
  const Variable a(1.0, {.name = "w"});
  const Variable b(1.0, {.name = "w"});
  Sgd optimizer({.momentum = 0.9});
  optimizer.apply_gradients({Tensor(1.0), Tensor(2.0)}, {a, b});
  EXPECT_EQ(values(optimizer.slot(a, "momentum")), Doubles({1}));
  EXPECT_EQ(values(optimizer.slot(b, "momentum")), Doubles({2}));
}

TEST(Optimizer, ConvertsGradients) {
  const Variable v({1.f, 2.f});
  Sgd({.learning_rate = 1.0}).apply_gradients({Tensor({0.5, 0.25})}, {v});
  EXPECT_EQ(values(v), Doubles({0.5, 1.75}));
}

TEST(Optimizer, LeavesVariablesWithoutGradientAndSaysSoOnce) {
  const Variable a(1.0);
  const Variable idle(1.0, {.name = "idle"});
  Sgd optimizer({.learning_rate = 1.0});
  ::testing::internal::CaptureStderr();
  optimizer.apply_gradients({Tensor(1.0), Gradient()}, {a, idle});
  optimizer.apply_gradients({Tensor(1.0), Gradient()}, {a, idle});
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::string warning = "variable 'idle' has no gradient and stays as it is";
  EXPECT_NE(log.find(warning), std::string::npos) << log;
  EXPECT_EQ(log.find(warning), log.rfind(warning)) << log;
  EXPECT_EQ(values(idle), Doubles({1}));
  EXPECT_EQ(values(a), Doubles({-1}));
}

TEST(Optimizer, UpdatesInPlace) {
  const Variable v(ones({8}));
  const auto memory = [&] {
    const Tensor value = v;
    return value.data<float>().data();
  };
  const void* before = memory();
  Adam optimizer;
  for (int i = 0; i < 3; ++i) optimizer.minimize([&] { return sum(v * v); }, {v});
  EXPECT_EQ(memory(), before);
}

TEST(Optimizer, IsNotRecorded) {
  const Variable v(2.0);
  Sgd optimizer({.learning_rate = 1.0});
  GradientTape tape;
  optimizer.apply_gradients({v * 0.5}, {v});
  EXPECT_EQ(tape.gradient(v * v, v).dense().to<double>(), 2);
}

TEST(Optimizer, LimitsGradients) {
  const auto moved = [](const Clipping& clipping) {
    const Variable v({0.0, 0.0});
    const Variable w({0.0});
    Sgd optimizer({.learning_rate = 1.0, .clipping = clipping});
    optimizer.apply_gradients({Tensor({-6.0, -8.0}), Tensor({-24.0})}, {v, w});
    return values(concat({v, w}, 0));
  };
  EXPECT_EQ(moved({}), Doubles({6, 8, 24}));
  EXPECT_EQ(moved({.value = 7}), Doubles({6, 7, 7}));
  EXPECT_EQ(moved({.norm = 5})[0], 3);
  EXPECT_EQ(moved({.norm = 5})[1], 4);
  EXPECT_DOUBLE_EQ(moved({.norm = 5})[2], 5);
  EXPECT_EQ(moved({.global_norm = 13}), Doubles({3, 4, 12}));
}

TEST(Optimizer, ChangesNothingWhenSomethingIsWrong) {
  const Variable a({1.0, 2.0}, {.name = "a"});
  const Variable b({1.0, 2.0}, {.name = "b"});
  const Variable whole({1, 2}, {.name = "n"});
  Sgd optimizer;
  const auto apply_to_b = [&](const Gradient& gradient) {
    optimizer.apply_gradients({ones({2}), gradient}, {a, b});
  };
  EXPECT_ERROR(Code::InvalidArgument, "variable 'b' has shape (2,), but its gradient has (3,)",
               apply_to_b(ones({3})));
  EXPECT_ERROR(Code::InvalidArgument, "variable 'b' has shape (2,), but its gradient has (3,)",
               apply_to_b(IndexedSlices{ones({1}), Tensor({0}), {3}}));
  EXPECT_ERROR(Code::InvalidArgument,
               "the gradient of variable 'b' names row 2, but the variable has 2",
               apply_to_b(IndexedSlices{ones({1}), Tensor({2}), {2}}));
  EXPECT_ERROR(Code::InvalidArgument, "names row -1",
               apply_to_b(IndexedSlices{ones({1}), Tensor({-1}), {2}}));
  EXPECT_ERROR(Code::InvalidArgument, "row values of shape (2,) and indices of shape (1,)",
               apply_to_b(IndexedSlices{ones({2}), Tensor({0}), {2}}));
  EXPECT_ERROR(Code::InvalidArgument, "the gradient of variable 'b' is int32, not floating",
               apply_to_b(Tensor({1, 2})));
  EXPECT_ERROR(Code::InvalidArgument, "variable 'n' is int32; only floating variables train",
               optimizer.apply_gradients({ones({2}), ones({2})}, {a, whole}));
  EXPECT_ERROR(Code::InvalidArgument, "got 1 gradients for 2 variables",
               optimizer.apply_gradients({ones({2})}, {a, b}));
  EXPECT_ERROR(Code::InvalidArgument, "none of the 2 variables has a gradient",
               optimizer.apply_gradients({Gradient(), Gradient()}, {a, b}));
  optimizer.set_learning_rate(Schedule([](const Tensor&) { return ones({2}); }));
  EXPECT_ERROR(Code::InvalidArgument,
               "a learning rate must be one floating number, but the schedule",
               apply_to_b(ones({2})));
  EXPECT_EQ(values(a), Doubles({1, 2}));
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 0);
}

TEST(Optimizer, NamesWrongConstants) {
  EXPECT_ERROR(Code::InvalidArgument, "[LearningRate] a learning rate must be finite and not negat",
               Sgd({.learning_rate = -0.1}));
  EXPECT_ERROR(Code::InvalidArgument, "[LearningRate]", Sgd({.learning_rate = kNan}));
  EXPECT_ERROR(Code::InvalidArgument, "[LearningRate]", Sgd({.learning_rate = kInfinity}));
  EXPECT_ERROR(Code::InvalidArgument, "the schedule is empty", LearningRate(Schedule()));
  EXPECT_ERROR(Code::InvalidArgument, "[Sgd] momentum must not be negative, got -1",
               Sgd({.momentum = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Sgd] nesterov needs a positive momentum",
               Sgd({.nesterov = true}));
  EXPECT_ERROR(Code::InvalidArgument, "[Sgd] weight_decay", Sgd({.weight_decay = kNan}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adam] beta1 must be in [0, 1), got 1", Adam({.beta1 = 1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adam] beta2", Adam({.beta2 = -0.1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adam] epsilon", Adam({.epsilon = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adam] weight_decay", Adam({.weight_decay = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[AdamW] weight_decay", AdamW({.weight_decay = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adagrad] initial_accumulator",
               Adagrad({.initial_accumulator = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adagrad] epsilon", Adagrad({.epsilon = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Adagrad] weight_decay", Adagrad({.weight_decay = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[RmsProp] rho", RmsProp({.rho = 1}));
  EXPECT_ERROR(Code::InvalidArgument, "[RmsProp] epsilon", RmsProp({.epsilon = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[RmsProp] momentum", RmsProp({.momentum = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[RmsProp] weight_decay", RmsProp({.weight_decay = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Ftrl] learning_rate_power",
               Ftrl({.learning_rate_power = 1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Ftrl] initial_accumulator",
               Ftrl({.initial_accumulator = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Ftrl] l1", Ftrl({.l1 = -1}));
  EXPECT_ERROR(Code::InvalidArgument, "[Ftrl] l2", Ftrl({.l2 = -1}));
  EXPECT_ERROR(
      Code::InvalidArgument,
      "[Optimizer] the limit of clipping by value must be positive, got -1; leave it empty",
      Sgd({.clipping = {.value = -1}}));
  EXPECT_ERROR(Code::InvalidArgument, "got 0; leave it empty for no limit",
               Sgd({.clipping = {.norm = 0}}));
  EXPECT_ERROR(Code::InvalidArgument, "clipping by norm", Sgd({.clipping = {.norm = kNan}}));
  EXPECT_ERROR(Code::InvalidArgument, "clipping by global norm",
               Sgd({.clipping = {.global_norm = -1}}));
}

TEST(Minimize, AppliesTheGradientOfTheLoss) {
  const Variable v({1.0, 2.0});
  const Variable frozen(3.0, {.trainable = false});
  Sgd optimizer({.learning_rate = 0.5});
  const Tensor loss = optimizer.minimize([&] { return sum(v * v) * frozen; }, {v, frozen});
  EXPECT_EQ(values(loss), Doubles({15}));
  EXPECT_EQ(values(v), Doubles({-2, -4}));
  EXPECT_EQ(values(frozen), Doubles({0.5}));
}

TEST(Minimize, UpdatesOnlyTheRowsThatWereRead) {
  const Variable table({{1.0}, {2.0}, {3.0}});
  Adam optimizer({.learning_rate = 0.5});
  optimizer.minimize([&] { return sum(gather(table, Tensor({2, 2}))); }, {table});
  EXPECT_EQ(values(table)[0], 1);
  EXPECT_EQ(values(table)[1], 2);
  EXPECT_NEAR(values(table)[2], 2.5, 1e-6);
}

TEST(Minimize, NamesALossThatDoesNotDependOnTheVariables) {
  const Variable v(1.0);
  Sgd optimizer;
  EXPECT_ERROR(Code::InvalidArgument, "was the loss computed from them while the tape recorded?",
               optimizer.minimize([] { return Tensor(1.0); }, {v}));
  EXPECT_ERROR(Code::InvalidArgument, "only floating values have gradients",
               optimizer.minimize([] { return Tensor(1); }, {v}));
  EXPECT_ERROR(Code::InvalidArgument, "only floating values can be watched, got int32",
               optimizer.minimize([&] { return v * v; }, {Variable(1)}));
}

}  // namespace
}  // namespace cohort::optim
