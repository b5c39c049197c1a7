#include "cohort/function.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

TEST(Function, GivesWhatThePlainCallGives) {
  const auto body = [](Tensor x, Tensor y) { return matmul(x, y) + 1.f; };
  const auto traced = function(body);
  const Tensor a({{1.f, 2.f}, {3.f, 4.f}});
  EXPECT_EQ(traced(a, a).to_vector<float>(), body(a, a).to_vector<float>());
  EXPECT_EQ(traced.num_traces(), 1u);
}

TEST(Function, NamesTheLineOfAnOpThatFailsWhileTraced) {
  constexpr int kLine = __LINE__ + 1;
  const auto traced = function([](Tensor x) { return matmul(x, x); });
  const std::string place = fmt::format("(called at {}:{})", __FILE__, kLine);
  EXPECT_ERROR(Code::InvalidArgument, "inner sizes differ: 2 and 1", traced(Tensor({{1.f, 2.f}})));
  EXPECT_ERROR(Code::InvalidArgument, place, traced(Tensor({{1.f, 2.f}})));
}

TEST(Function, TracesOncePerDtypeAndShape) {
  int calls = 0;
  const auto traced = function([&](Tensor x) {
    ++calls;
    return x * x;
  });
  traced(ones({2}));
  traced(ones({2}) * 3.f);
  EXPECT_EQ(calls, 1);
  traced(ones({2, 2}));
  traced(ones({2}, kFloat64));
  EXPECT_EQ(calls, 3);
}

TEST(Function, TracesAnUnknownFirstSizeAfterAFewKinds) {
  const auto traced = function([](Tensor x) { return sum(x * 2.f, 1); });
  for (int64_t batch = 1; batch <= 20; ++batch) {
    EXPECT_EQ(traced(ones({batch, 3})).shape(), (Shape{batch}));
  }
  EXPECT_LE(traced.num_traces(), 5u);
}

// A function of a number and a tensor that counts how often it was traced.
struct Scaling {
  int traced = 0;
  Function<std::function<Tensor(int, Tensor)>> call{
      std::function<Tensor(int, Tensor)>([this](int by, const Tensor& x) {
        ++traced;
        return x * static_cast<float>(by);
      })};

  float operator()(int by) const { return call(by, Tensor(2.f)).to<float>(); }
};

TEST(Function, KeepsTheTracesOfTheNumbersUsedLast) {
  Scaling scale;
  for (int by = 1; by <= 1000; ++by) {
    EXPECT_EQ(scale(by), 2.f * static_cast<float>(by));
    EXPECT_EQ(scale(1), 2.f);  // used again and again: it stays
  }
  EXPECT_EQ(scale.traced, 1000);
  EXPECT_LE(scale.call.num_traces(), 256u);
  EXPECT_EQ(scale(900), 1800.f);
  EXPECT_EQ(scale.traced, 1000);
  EXPECT_EQ(scale(2), 4.f);
  EXPECT_EQ(scale.traced, 1001);
}

TEST(Function, KeepsTheTracesOfTheShapesUsedLast) {
  int traced = 0;
  const auto count = function([&](Tensor x) {
    ++traced;
    return x * static_cast<float>(x.shape()[1]);
  });
  for (int64_t columns = 1; columns <= 300; ++columns) {
    EXPECT_EQ(count(ones({1, columns})).shape(), (Shape{1, columns}));
    count(ones({1, 1}));
  }
  EXPECT_EQ(traced, 300);
  EXPECT_LE(count.num_traces(), 256u);
  count(ones({1, 2}));
  EXPECT_EQ(traced, 301);
}

size_t count_in(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Function, WarnsOnceOfNumbersThatAreNewInEveryCall) {
  const auto add =
      function([](int by, Tensor x) { return x + static_cast<float>(by); }, {.name = "add_number"});
  testing::internal::CaptureStderr();
  for (int by = 0; by < 63; ++by) add(by, Tensor(1.f));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  for (int by = 63; by < 400; ++by) add(by, Tensor(1.f));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_in(told, "'add_number' was traced for 64 different"), 1u) << told;
  EXPECT_EQ(count_in(told, "pass a Tensor"), 1u) << told;
}

TEST(Function, WarnsOnceOfShapesThatAreNewInEveryCall) {
  const auto twice = function([](Tensor x) { return x * 2.f; }, {.name = "twice"});
  testing::internal::CaptureStderr();
  for (int64_t columns = 1; columns <= 200; ++columns) twice(ones({1, columns}));
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_in(told, "'twice' was traced for 64 different"), 1u) << told;
  EXPECT_EQ(count_in(told, "pad"), 1u) << told;
}

TEST(Function, SeesChangesOfCapturedVariables) {
  Variable w(2.f);
  const auto traced = function([&](Tensor x) { return x * w; });
  EXPECT_EQ(traced(Tensor(3.f)).to<float>(), 6.f);
  w.assign(5.f);
  EXPECT_EQ(traced(Tensor(3.f)).to<float>(), 15.f);
}

// Though it may be at the same address.
TEST(Function, TellsAVariableFromOneThatHasEnded) {
  const auto read = function([](Variable v) { return v.read_value() + 0.f; });
  for (int i = 0; i < 8; ++i) {
    const Variable v(static_cast<float>(i));
    EXPECT_EQ(read(v).to<float>(), i);
  }
}

TEST(Function, ChangesVariablesInTheOrderOfTheCode) {
  Variable w(1.f);
  const auto traced = function([&](Tensor x) {
    const Tensor before = w.read_value();
    w.assign_add(x);
    const Tensor between = w.read_value();
    w.assign(between * 10.f);
    return std::vector<Tensor>{before, between, w.read_value()};
  });
  const std::vector<Tensor> seen = traced(Tensor(2.f));
  EXPECT_EQ(seen[0].to<float>(), 1.f);
  EXPECT_EQ(seen[1].to<float>(), 3.f);
  EXPECT_EQ(seen[2].to<float>(), 30.f);
  EXPECT_EQ(w.read_value().to<float>(), 30.f);
}

TEST(Function, IsDifferentiableFromOutside) {
  Variable w(3.f);
  const auto traced = function([&](Tensor x) { return x * w * w; });
  GradientTape tape;
  const Tensor x = identity(Tensor(2.f));
  tape.watch(x);
  const Tensor y = traced(x);
  const Gradients found = tape.gradient(std::vector<Tensor>{y}, std::vector<Tensor>{x});
  EXPECT_EQ(Tensor(found[0]).to<float>(), 9.f);
  GradientTape second;
  EXPECT_EQ(Tensor(second.gradient(traced(x), w)).to<float>(), 12.f);
}

TEST(Function, HoldsAWholeTrainingStep) {
  random::set_seed(7);
  nn::Sequential model{nn::Dense(4, 8), nn::relu, nn::Dense(8, 3)};
  optim::Sgd optimizer({.learning_rate = 0.1, .momentum = 0.9});
  const auto step = [&](Tensor x, Tensor labels) {
    GradientTape tape;
    const Tensor loss = nn::softmax_cross_entropy(model(x), labels);
    optimizer.apply_gradients(tape.gradient(loss, model.variables()), model.variables());
    return loss;
  };
  const auto traced = function(step);
  const Tensor x = random::normal({6, 4});
  const Tensor labels({0, 1, 2, 0, 1, 2});
  float first = 0;
  float last = 0;
  for (int i = 0; i < 30; ++i) {
    last = traced(x, labels).to<float>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first / 2);
  EXPECT_EQ(traced.num_traces(), 1u);
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 30);
}

TEST(Function, ExplainsWhatCannotBeTraced) {
  const auto traced = function([](Tensor x) { return x.to<float>() > 0 ? x : -x; });
  try {
    traced(Tensor(1.f));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::FailedPrecondition);
    EXPECT_NE(error.message().find("cond()"), std::string::npos) << error.message();
  }
}

TEST(Function, TakesAndReturnsStructures) {
  using Named = std::map<std::string, Tensor>;
  const auto traced = function([](Named in, std::vector<Tensor> more) {
    return std::make_tuple(in.at("a") + more[0], std::make_pair(in.at("b"), more[1]));
  });
  const auto [sum, rest] = traced(Named{{"a", Tensor(1.f)}, {"b", Tensor(2.f)}},
                                  std::vector<Tensor>{Tensor(3.f), Tensor(4.f)});
  EXPECT_EQ(sum.to<float>(), 4.f);
  EXPECT_EQ(rest.first.to<float>(), 2.f);
  EXPECT_EQ(rest.second.to<float>(), 4.f);
}

TEST(Function, CallsFunctions) {
  const auto square_it = function([](Tensor x) { return x * x; });
  const auto outer = function([&](Tensor x) { return square_it(x) + square_it(x + 1.f); });
  EXPECT_EQ(outer(Tensor(2.f)).to<float>(), 13.f);
}

}  // namespace
}  // namespace cohort
