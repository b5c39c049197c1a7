#include "cohort/variable.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;
using Names = std::vector<std::string>;

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

const void* memory_of(const Variable& variable) {
  const Tensor value = variable;
  return value.data<float>().data();
}

TEST(Variable, HoldsNothingUntilAnotherIsAssignedToIt) {
  Variable v;
  EXPECT_FALSE(v.defined());
  EXPECT_EQ(v.to_string(), "<Variable undefined>");
  EXPECT_ERROR(Code::FailedPrecondition, "[Variable] this variable holds nothing", v.read_value());
  EXPECT_ERROR(Code::FailedPrecondition, "[Variable] this variable holds nothing", v.assign(1.f));
  EXPECT_ERROR(Code::FailedPrecondition, "[Variable] this variable holds nothing", v + 1.f);
  EXPECT_ERROR(Code::FailedPrecondition, "[Variable] this variable holds nothing",
               GradientTape().watch(v));
  std::vector<Variable> several(2);
  several[0] = Variable(2.f);
  v = several[0];
  EXPECT_EQ(v.read_value().to<float>(), 2);
}

TEST(Variable, IsMadeFromNumbersListsTensorsAndFunctions) {
  EXPECT_EQ(Variable(2.f).shape(), Shape());
  EXPECT_EQ(Variable({1, 2, 3}).dtype(), kInt32);
  EXPECT_EQ(Variable({{1.f, 2.f}, {3.f, 4.f}}).shape(), Shape({2, 2}));
  EXPECT_EQ(Variable({{{1.0}, {2.0}}}).shape(), Shape({1, 2, 1}));
  EXPECT_EQ(Variable(ones({4})).shape(), Shape({4}));
  EXPECT_EQ(values(Variable([] { return ones({2}); })), Doubles({1, 1}));
}

TEST(Variable, HasANameThatNeedNotBeUnique) {
  EXPECT_EQ(Variable(1.f).name(), "Variable");
  const Variable a(1.f, {.name = "kernel"});
  const Variable b(2.f, {.name = "kernel"});
  EXPECT_EQ(a.name(), b.name());
}

TEST(Variable, IsTrainableExceptOnRead) {
  EXPECT_TRUE(Variable(1.f).trainable());
  EXPECT_FALSE(Variable(1.f, {.trainable = false}).trainable());
  const Variable metric(1.f, {.synchronization = VariableSynchronization::OnRead,
                              .aggregation = VariableAggregation::Sum});
  EXPECT_FALSE(metric.trainable());
  EXPECT_EQ(metric.synchronization(), VariableSynchronization::OnRead);
  EXPECT_EQ(metric.aggregation(), VariableAggregation::Sum);
  EXPECT_TRUE(Variable(1.f, {.trainable = true, .synchronization = VariableSynchronization::OnRead})
                  .trainable());
}

TEST(Variable, ConvertsItsInitialValue) {
  const Variable v({1.9, 2.1}, {.dtype = kInt32});
  EXPECT_EQ(v.dtype(), kInt32);
  EXPECT_EQ(values(v), Doubles({1, 2}));
}

TEST(Variable, HoldsStrings) {
  Variable v(Tensor({"a", "b"}));
  EXPECT_EQ(v.assign(Tensor({"c", "d"})).to_vector<std::string>(), Names({"c", "d"}));
}

TEST(Variable, KnowsItsDevice) {
  EXPECT_EQ(Variable(1.0f).device(), "/job:localhost/replica:0/task:0/device:CPU:0");
}

TEST(Variable, IsAHandle) {
  Variable a(1.f);
  const Variable b = a;
  a.assign(5.f);
  EXPECT_EQ(values(b), Doubles({5}));
}

TEST(Variable, ComputesLikeATensor) {
  const Variable v({1.f, 2.f});
  EXPECT_EQ(values(v * 2.0 + v), Doubles({3, 6}));
  EXPECT_EQ(values(-v), Doubles({-1, -2}));
  EXPECT_EQ(values(1.f / v), Doubles({1, 0.5}));
  EXPECT_EQ(values(exp(v - v)), Doubles({1, 1}));
  EXPECT_EQ((v * 2.0).dtype(), kFloat32);
}

TEST(Variable, Prints) {
  std::ostringstream out;
  out << Variable(1.f) << '\n' << Variable({1.f, 2.f}, {.name = "w"});
  EXPECT_EQ(out.str(),
            "<Variable 'Variable:0' shape=() dtype=float32, value=1.0>\n"
            "<Variable 'w:0' shape=(2,) dtype=float32, value=[1. 2.]>");
  EXPECT_EQ(Variable(int64_t{3}, {.name = "n"}).to_string(),
            "<Variable 'n:0' shape=() dtype=int64, value=3>");
}

TEST(Variable, NamesWrongOptions) {
  EXPECT_ERROR(Code::InvalidArgument,
               "[Variable] 'w' must have shape (3,), but its initial value has (2,)",
               Variable({1.f, 2.f}, {.name = "w", .shape = {3}}));
  EXPECT_ERROR(Code::InvalidArgument, "string", Variable("text", {.dtype = kFloat32}));
  EXPECT_ERROR(Code::InvalidArgument, "[Variable] 'Variable': the initializer is empty",
               Variable(Initializer()));
  EXPECT_ERROR(Code::FailedPrecondition, "holds nothing", Variable(Tensor()));
}

TEST(VariableAssign, ReplacesAddsAndSubtracts) {
  Variable v({1.f, 2.f});
  EXPECT_EQ(values(v.assign(Tensor({5.f, 6.f}))), Doubles({5, 6}));
  EXPECT_EQ(values(v.assign_add(Tensor({1.f, 2.f}))), Doubles({6, 8}));
  EXPECT_EQ(values(v.assign_sub(2.f)), Doubles({4, 6}));
  EXPECT_EQ(values(v), Doubles({4, 6}));
}

TEST(VariableAssign, ConvertsWhatLosesOnlyPrecision) {
  Variable v({1.f, 2.f});
  EXPECT_EQ(v.assign(Tensor({3.0, 4.0})).dtype(), kFloat32);
  v.assign_add(Tensor({1, 2}));
  EXPECT_EQ(values(v), Doubles({4, 6}));
  Variable counter(int64_t{1});
  EXPECT_EQ(values(counter.assign_add(1)), Doubles({2}));
  EXPECT_ERROR(Code::InvalidArgument,
               "[Assign] variable 'Variable' is int64, got a float32 value; cast() it first",
               counter.assign(1.f));
  EXPECT_ERROR(Code::InvalidArgument, "[AssignAdd] variable 'Variable' is int64, got a float64",
               counter.assign_add(1.0));
  EXPECT_ERROR(Code::InvalidArgument, "got a string value", counter.assign("text"));
  EXPECT_EQ(values(counter), Doubles({2}));
}

TEST(VariableAssign, KeepsADtypeOfItsOwn) {
  Variable v(1.f);
  v.assign(3.f);
  EXPECT_EQ((v * cast(Tensor({1.f}), kFloat16)).dtype(), kFloat32);
}

TEST(VariableAssign, ChecksTheShape) {
  Variable v({1.f, 2.f}, {.name = "w"});
  EXPECT_ERROR(Code::InvalidArgument,
               "[Assign] variable 'w' has shape (2,), got a value of shape (3,)",
               v.assign(ones({3})));
  EXPECT_ERROR(Code::InvalidArgument, "[Assign]", v.assign(1.f));
  EXPECT_ERROR(Code::InvalidArgument, "[AssignAdd]", v.assign_add(ones({3})));
  EXPECT_ERROR(Code::InvalidArgument, "[AssignSub] a delta of shape (2, 2) does not fit",
               v.assign_sub(ones({2, 2})));
  EXPECT_EQ(values(v), Doubles({1, 2}));
}

TEST(VariableAssign, AllowsWhatAnOpenShapeAllows) {
  Variable v(ones({2, 3}), {.shape = {-1, 3}});
  EXPECT_EQ(v.shape(), Shape({-1, 3}));
  EXPECT_EQ(v.assign(ones({5, 3})).shape(), Shape({5, 3}));
  EXPECT_ERROR(Code::InvalidArgument, "has shape (None, 3)", v.assign(ones({5, 2})));
  EXPECT_ERROR(Code::InvalidArgument, "[AssignAdd]", v.assign_add(ones({4, 3})));
  EXPECT_ERROR(Code::InvalidArgument, "[AssignSub] a delta of shape (2, 5, 3)",
               v.assign_sub(ones({2, 5, 3})));
  EXPECT_EQ(values(v.assign_add(ones({1, 3})))[14], 2);
}

TEST(VariableAssign, HasNoArithmeticOnTextAndTruth) {
  Variable text("a", {.name = "t"});
  Variable truth(true, {.name = "b"});
  EXPECT_ERROR(Code::InvalidArgument, "[AssignAdd] variable 't' is string, which has no arithmetic",
               text.assign_add("b"));
  EXPECT_ERROR(Code::InvalidArgument, "[AssignSub] variable 'b' is bool", truth.assign_sub(true));
}

TEST(VariableAssign, NeverChangesAValueThatWasRead) {
  Variable v({1.f, 2.f});
  const Tensor before = v;
  const Tensor part = before[1];
  v.assign_add(1.f);
  v.scatter_add({Tensor({5.f}), Tensor({0}), {2}});
  EXPECT_EQ(values(before), Doubles({1, 2}));
  EXPECT_EQ(values(part), Doubles({2}));
  EXPECT_EQ(values(v), Doubles({7, 3}));
}

TEST(VariableAssign, NeverChangesAViewOfAValue) {
  Variable v({{1.f, 2.f}, {3.f, 4.f}});
  const Tensor view = transpose(v);
  v.assign_sub(1.f);
  EXPECT_EQ(values(view), Doubles({1, 3, 2, 4}));
}

TEST(VariableAssign, NeverChangesTheTensorItGot) {
  const Tensor value({1.f, 2.f});
  Variable v(value);
  v.assign_add(1.f);
  v.assign(value);
  v.assign_add(1.f);
  EXPECT_EQ(values(value), Doubles({1, 2}));
}

TEST(VariableAssign, WorksInPlaceWhenNobodyElseHoldsTheValue) {
  Variable v({1.f, 2.f});
  const void* memory = memory_of(v);
  v.assign_add(1.f);
  v.scatter_update({Tensor({9.f}), Tensor({0}), {2}});
  EXPECT_EQ(memory_of(v), memory);
  const Tensor held = v;
  v.assign_add(1.f);
  EXPECT_NE(memory_of(v), memory);
}

TEST(VariableAssign, DoesNotWriteToForeignMemory) {
  const std::vector<float> memory{1, 2};
  bool released = false;
  Variable v(Tensor::from_memory(memory.data(), kFloat32, {2}, [&released] { released = true; }));
  EXPECT_EQ(memory_of(v), memory.data());
  v.assign_add(1.f);
  EXPECT_EQ(memory, (std::vector<float>{1, 2}));
  EXPECT_TRUE(released);
  EXPECT_EQ(values(v), Doubles({2, 3}));
}

TEST(VariableAssign, IsAtomic) {
  Variable v(zeros({100}));
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([v]() mutable {
      for (int round = 0; round < kRounds; ++round) {
        v.assign_add(1.f);
        v.scatter_sub({Tensor({1.f}), Tensor({7}), {100}});
        const std::vector<float> seen = v.read_value().to_vector<float>();
        EXPECT_EQ(seen[0], seen[99]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Doubles total = values(v);
  EXPECT_EQ(total[0], kThreads * kRounds);
  EXPECT_EQ(total[7], 0);
}

TEST(VariableCreator, IsAskedFromTheInside) {
  Names calls;
  const auto named = [&](const std::string& name) {
    return [&calls, name](const NextCreator& next, const VariableRequest& request) {
      calls.push_back(name);
      VariableRequest changed = request;
      changed.options.name += "/" + name;
      return next(changed);
    };
  };
  {
    const VariableCreatorScope outer(named("outer"));
    {
      const VariableCreatorScope inner(named("inner"));
      EXPECT_EQ(Variable(1.f, {.name = "v"}).name(), "v/inner/outer");
    }
    EXPECT_EQ(Variable(1.f, {.name = "v"}).name(), "v/outer");
  }
  EXPECT_EQ(Variable(1.f, {.name = "v"}).name(), "v");
  EXPECT_EQ(calls, Names({"inner", "outer", "outer"}));
}

TEST(VariableCreator, MayMakeTheVariableItself) {
  const Variable ready(7.f, {.name = "ready"});
  bool asked = false;
  const VariableCreatorScope outer([&](const NextCreator& next, const VariableRequest& request) {
    asked = true;
    return next(request);
  });
  const VariableCreatorScope inner(
      [&](const NextCreator&, const VariableRequest&) { return ready; });
  EXPECT_EQ(Variable(1.f).name(), "ready");
  EXPECT_FALSE(asked);
}

TEST(VariableCreator, RunsTheInitializerOnlyWhenTheVariableIsMade) {
  int runs = 0;
  const VariableCreatorScope twice([](const NextCreator& next, const VariableRequest& request) {
    next(request);
    return next(request);
  });
  const Variable v([&runs] { return Tensor(static_cast<float>(++runs)); });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(values(v), Doubles({2}));
}

TEST(VariableCreator, BelongsToItsThread) {
  const VariableCreatorScope scope([](const NextCreator& next, const VariableRequest& request) {
    VariableRequest changed = request;
    changed.options.name = "mine";
    return next(changed);
  });
  std::string elsewhere;
  std::thread([&] { elsewhere = Variable(1.f).name(); }).join();
  EXPECT_EQ(elsewhere, "Variable");
  EXPECT_EQ(Variable(1.f).name(), "mine");
}

TEST(VariableCreator, MustNotBeEmpty) {
  EXPECT_ERROR(Code::InvalidArgument, "[VariableCreatorScope] the creator is empty",
               VariableCreatorScope(nullptr));
  EXPECT_EQ(Variable(1.f).name(), "Variable");
}

}  // namespace
}  // namespace cohort
