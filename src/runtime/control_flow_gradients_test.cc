// Branches and loops read variables, and tapes find the gradients of these variables.

#include <gtest/gtest.h>

#include <optional>

#include "cohort/cohort.h"

namespace cohort {
namespace {

using Floats = std::vector<float>;

// A graph with one number to be fed and variables that begin with 5.
class ControlFlowGradients : public ::testing::Test {
 protected:
  Variable variable(std::string_view name, const Shape& shape = {}) {
    return get_variable(name, {.shape = shape, .initializer = nn::constant(5)});
  }

  static Gradient gradient(const Tensor& y, const Variable& v,
                           const GradientOptions& options = {}) {
    return gradients({y}, std::vector<Variable>{v}, options)[0];
  }

  // What `y` is when x is fed this.
  Floats at(float fed, const Tensor& y) {
    if (!session_) {
      session_.emplace();
      session_->run(global_variables_initializer());
    }
    return session_->run(y, {{x_, Tensor(fed)}}).to_vector<float>();
  }

  Graph graph_;
  Graph::Scope building_ = graph_.as_default();
  const Tensor x_ = placeholder(kFloat32, {});
  std::optional<Session> session_;
};

// x multiplied with v, so many times.
Tensor times_power(const Tensor& x, const Variable& v, int times) {
  return while_loop([&](std::span<const Tensor> now) { return now[0] < times; },
                    [&](std::span<const Tensor> now) {
                      return std::vector<Tensor>{now[0] + 1, now[1] * v};
                    },
                    {constant(0), x})[1];
}

TEST_F(ControlFlowGradients, ReachAVariableThatOneBranchReads) {
  const Variable v = variable("v");
  const Tensor y = cond(
      x_ > 0.f, [&] { return x_ * v * v; }, [&] { return x_ * 3.f; });
  const Tensor slope = gradient(y, v).dense();
  EXPECT_EQ(at(2, slope), Floats({20}));
  EXPECT_EQ(at(-2, slope), Floats({0}));
  const Tensor other = cond(
      x_ > 0.f, [&] { return x_ * 3.f; }, [&] { return x_ * v * v; });
  const Tensor other_slope = gradient(other, v).dense();
  EXPECT_EQ(at(2, other_slope), Floats({0}));
  EXPECT_EQ(at(-2, other_slope), Floats({-20}));
}

TEST_F(ControlFlowGradients, ReachVariablesThatBothBranchesRead) {
  const Variable v = variable("v", {2});
  const Variable w = variable("w");
  const Tensor y = cond(
      x_ > 0.f, [&] { return sum(v * w); }, [&] { return sum(v * x_) + w * w; });
  const Gradients slopes = gradients({y}, std::vector<Variable>{v, w});
  EXPECT_EQ(at(1, slopes[0].dense()), Floats({5, 5}));
  EXPECT_EQ(at(1, slopes[1].dense()), Floats({10}));
  EXPECT_EQ(at(-1, slopes[0].dense()), Floats({-1, -1}));
  EXPECT_EQ(at(-1, slopes[1].dense()), Floats({10}));
}

TEST_F(ControlFlowGradients, ReachAVariableInBranchesOfBranches) {
  const Variable v = variable("v");
  const auto inner = [&] {
    return cond(
        x_ > 10.f, [&] { return v * 100.f; }, [&] { return v * v; });
  };
  const Tensor y = cond(x_ > 0.f, inner, [&] { return x_ * 1.f; });
  const Tensor slope = gradient(y, v).dense();
  EXPECT_EQ(at(20, slope), Floats({100}));
  EXPECT_EQ(at(1, slope), Floats({10}));
  EXPECT_EQ(at(-1, slope), Floats({0}));
}

TEST_F(ControlFlowGradients, ReachAVariableThatTheBodyOfALoopReads) {
  const Variable v = variable("v");
  EXPECT_EQ(at(2, gradient(times_power(x_, v, 3), v).dense()), Floats({150}));
  EXPECT_EQ(at(2, gradient(times_power(x_, v, 0), v).dense()), Floats({0}));
}

TEST_F(ControlFlowGradients, OfALoopKeepCapturesApart) {
  const Variable v = variable("v");
  const Variable limit = variable("limit");
  const Tensor y = while_loop([&](std::span<const Tensor> now) { return now[0] < limit; },
                              [&](std::span<const Tensor> now) {
                                return std::vector<Tensor>{now[0] + 1.f, now[1] + v * x_};
                              },
                              {constant(3.f), constant(0.f)})[1];
  const Gradients slopes = gradients({y}, std::vector<Variable>{v, limit});
  EXPECT_EQ(at(7, slopes[0].dense()), Floats({14}));
  EXPECT_FALSE(slopes[1].defined());
  EXPECT_EQ(at(7, gradients({y}, std::vector<Tensor>{x_})[0].dense()), Floats({10}));
}

TEST_F(ControlFlowGradients, ReachAVariableInALoopInABranchAndTheOtherWayRound) {
  const Variable v = variable("v");
  const Tensor loop = cond(
      x_ > 0.f, [&] { return times_power(x_, v, 2); }, [&] { return x_ * 1.f; });
  EXPECT_EQ(at(3, gradient(loop, v).dense()), Floats({30}));
  EXPECT_EQ(at(-3, gradient(loop, v).dense()), Floats({0}));
  const Tensor branch =
      while_loop([](std::span<const Tensor> now) { return now[0] < 4; },
                 [&](std::span<const Tensor> now) {
                   const Tensor next = cond(
                       now[0] < 1, [&] { return now[1] * v; }, [&] { return now[1] + v; });
                   return std::vector<Tensor>{now[0] + 1, next};
                 },
                 {constant(0), x_})[1];
  EXPECT_EQ(at(3, gradient(branch, v).dense()), Floats({6}));
}

TEST_F(ControlFlowGradients, AreTheSumOfReadsInsideAndOutside) {
  const Variable v = variable("v");
  const Tensor inside = cond(
      x_ > 0.f, [&] { return v * v; }, [&] { return x_ * 1.f; });
  const Tensor slope = gradient(inside * v + v * 1000.f, v).dense();
  EXPECT_EQ(at(1, slope), Floats({1075}));
  EXPECT_EQ(at(-1, slope), Floats({999}));
}

TEST_F(ControlFlowGradients, ReachTheRowsThatABranchGathers) {
  const Variable table = variable("table", {3, 1});
  const Tensor y = cond(
      x_ > 0.f,
      [&] {
        return sum(gather(table, Tensor({2, 0, 2})));
      },
      [&] { return x_ * 1.f; });
  const Tensor slope = gradient(y, table).dense();
  EXPECT_EQ(at(1, slope), Floats({1, 0, 2}));
  EXPECT_EQ(at(-1, slope), Floats({0, 0, 0}));
  const Tensor both = gradient(y + sum(gather(table, Tensor({1}))), table).dense();
  EXPECT_EQ(at(1, both), Floats({1, 1, 2}));
}

TEST_F(ControlFlowGradients, AreNoneOfAVariableThatABranchOnlyAssigns) {
  Variable v = variable("v");
  const Tensor y = cond(
      x_ > 0.f,
      [&] {
        v.assign(x_ * 7.f);
        return x_ * 2.f;
      },
      [&] { return x_ * 3.f; });
  EXPECT_FALSE(gradient(y, v).defined());
  EXPECT_EQ(at(1, gradients({y}, std::vector<Tensor>{x_})[0].dense()), Floats({2}));
  EXPECT_EQ(at(-1, gradients({y}, std::vector<Tensor>{x_})[0].dense()), Floats({3}));
}

TEST_F(ControlFlowGradients, ChangeNothingAgain) {
  Variable branches = variable("branches");
  Variable iterations = variable("iterations");
  const Tensor once = cond(
      x_ > 0.f,
      [&] {
        branches.assign_add(1.f);
        return x_ * x_;
      },
      [&] { return x_; });
  const Tensor thrice = while_loop([](std::span<const Tensor> now) { return now[0] < 3; },
                                   [&](std::span<const Tensor> now) {
                                     iterations.assign_add(1.f);
                                     return std::vector<Tensor>{now[0] + 1, now[1] * x_};
                                   },
                                   {constant(0), once})[1];
  const Tensor slope = gradients({thrice}, std::vector<Tensor>{x_})[0].dense();
  EXPECT_EQ(at(2, slope), Floats({80}));  // of x^5
  EXPECT_EQ(at(2, branches), Floats({6}));
  EXPECT_EQ(at(2, iterations), Floats({8}));
}

TEST_F(ControlFlowGradients, AreRefusedWhereTheResultDependsOnWhatIsChanged) {
  Variable v = variable("v");
  const auto expect_refusal = [&](const Tensor& y) {
    try {
      gradients({y}, std::vector<Tensor>{x_});
      ADD_FAILURE() << "gave a gradient";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::Unimplemented);
      EXPECT_NE(std::string(error.what()).find("GradientTape inside"), std::string::npos);
    }
  };
  const auto in_branch = [&](const std::function<Tensor()>& body) {
    return cond(x_ > 0.f, body, [&] { return x_; });
  };
  expect_refusal(in_branch([&] { return x_ * v.assign_add(1.f); }));
  expect_refusal(in_branch([&] {
    const Tensor y = x_ * v;  // before it is changed
    v.assign_add(1.f);
    return y;
  }));
  expect_refusal(while_loop([&](std::span<const Tensor>) { return v < 9.f; },
                            [&](std::span<const Tensor> now) {
                              v.assign_add(1.f);
                              return std::vector<Tensor>{now[0] * x_};
                            },
                            {x_})[0]);
}

// At once, on a tape.
TEST(TracedCalls, ChangeNothingAgainForTheirGradient) {
  Variable v(0.f);
  const auto square = function([&](Tensor x) {
    return cond(
        x > 0.f,
        [&] {
          v.assign_add(1.f);
          return x * x;
        },
        [&] { return x; });
  });
  const Tensor x(3.f);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = square(x);
  EXPECT_EQ(tape.gradient(y, x).dense().to<float>(), 6);
  EXPECT_EQ(v.read_value().to<float>(), 1);
}

TEST_F(ControlFlowGradients, EndWhereABranchReturnsWhatItAssigned) {
  Variable v = variable("v");
  const Tensor y = cond(
      x_ > 0.f, [&] { return v.assign(x_ * 7.f); }, [&] { return x_ * 3.f; });
  const Tensor slope = gradients({y}, std::vector<Tensor>{x_})[0].dense();
  EXPECT_EQ(at(1, slope), Floats({0}));
  EXPECT_EQ(at(-1, slope), Floats({3}));
}

TEST_F(ControlFlowGradients, AreNoneOfAVariableThatIsReadInsideAndNotConnected) {
  const Variable v = variable("v", {2});
  const Tensor aside = cond(
      x_ > 0.f, [&] { return sum(v * x_); }, [&] { return x_ * 1.f; });
  const Tensor y = x_ * 2.f;
  EXPECT_FALSE(gradient(y, v).defined());
  const Gradient zero = gradient(y, v, {.unconnected = Unconnected::Zero});
  ASSERT_TRUE(zero.defined());
  EXPECT_EQ(at(1, zero.dense()), Floats({0, 0}));
  EXPECT_EQ(at(1, aside), Floats({10}));
}

TEST_F(ControlFlowGradients, OfAVariableThatIsReadForNothingAreZero) {
  const Variable v = variable("v", {2});
  const Tensor y = cond(
      x_ > 0.f,
      [&] {
        v.read_value();
        return x_ * 2.f;
      },
      [&] { return stop_gradient(sum(v)); });
  EXPECT_EQ(at(1, gradient(y, v).dense()), Floats({0, 0}));
  EXPECT_EQ(at(-1, gradient(y, v).dense()), Floats({0, 0}));
}

TEST_F(ControlFlowGradients, LeaveIntegerVariablesOut) {
  const Variable steps =
      get_variable("steps", {.shape = {}, .dtype = kInt64, .initializer = zeros()});
  const Variable v = variable("v");
  const Tensor y = cond(
      x_ > 0.f, [&] { return v * cast(steps.read_value() + 3, kFloat32); },
      [&] { return x_ * 1.f; });
  EXPECT_EQ(at(1, gradient(y, v).dense()), Floats({3}));
}

TEST_F(ControlFlowGradients, HaveGradientsThemselves) {
  const Variable v = variable("v");
  const Tensor y = cond(
      x_ > 0.f, [&] { return x_ * v * v * v; }, [&] { return x_ * 3.f; });
  const Tensor second = gradient(gradient(y, v).dense(), v).dense();
  EXPECT_EQ(at(2, second), Floats({60}));
  EXPECT_EQ(at(-2, second), Floats({0}));
  const Tensor mixed = gradients({gradient(y, v).dense()}, std::vector<Tensor>{x_})[0].dense();
  EXPECT_EQ(at(2, mixed), Floats({75}));
}

TEST_F(ControlFlowGradients, NeedAShapeThatIsKnown) {
  const Variable v(Tensor({1.f, 2.f}), {.name = "v", .shape = {-1}});
  const Tensor y = cond(
      x_ > 0.f, [&] { return sum(v); }, [&] { return x_ * 1.f; });
  const Status status = capture_status([&] { gradient(y, v); });
  EXPECT_EQ(status.code, Code::Unimplemented);
  EXPECT_NE(status.message.find("read the variable outside"), std::string::npos) << status.message;
}

TEST_F(ControlFlowGradients, TrainWithMinimize) {
  const Variable v = variable("v");
  const Tensor loss = cond(
      x_ > 0.f, [&] { return square(v - 3.f); }, [&] { return square(v + 1.f); });
  optim::Sgd optimizer({.learning_rate = 0.25});
  const Tensor train = optimizer.minimize(loss);
  Session session;
  session.run(global_variables_initializer());
  session.run(train, {{x_, Tensor(1.f)}});
  EXPECT_EQ(session.run(v.read_value()).to<float>(), 4.f);
  session.run(train, {{x_, Tensor(-1.f)}});
  EXPECT_EQ(session.run(v.read_value()).to<float>(), 1.5f);
}

TEST_F(ControlFlowGradients, SurviveSerialization) {
  const Variable v = variable("v");
  const Tensor branch = cond(
      x_ > 0.f, [&] { return v * v; }, [&] { return x_ * 1.f; });
  const Tensor slope = gradient(times_power(x_, v, 2) + branch, v).dense();
  const Graph read = Graph::deserialize(graph_.serialize());
  EXPECT_EQ(read.size(), graph_.size());
  EXPECT_EQ(at(1, slope), Floats({20}));
}

// Each calls a function of x under a tape. The tape is open inside or outside a traced function.
float inside(const std::function<Tensor(Tensor)>& f, const Variable& v, float x) {
  const auto traced = function([&](Tensor given) {
    GradientTape tape;
    return tape.gradient(f(given), v, {.unconnected = Unconnected::Zero}).dense();
  });
  return traced(Tensor(x)).to<float>();
}

float outside(const std::function<Tensor(Tensor)>& f, const Variable& v, float x, bool watch) {
  const auto traced = function(f);
  traced(Tensor(x));
  const Tensor given = identity(Tensor(x));
  GradientTape tape;
  if (watch) tape.watch(given);
  return tape.gradient(traced(given), v, {.unconnected = Unconnected::Zero}).dense().to<float>();
}

TEST(ControlFlowTapes, ReachAVariableThatABranchReads) {
  const Variable v(5.f);
  const auto f = [&](Tensor x) {
    return cond(
        x > 0.f, [&] { return x * v * v; }, [&] { return x * 3.f; });
  };
  EXPECT_EQ(inside(f, v, 2), 20);
  EXPECT_EQ(inside(f, v, -2), 0);
  for (const bool watch : {false, true}) {
    EXPECT_EQ(outside(f, v, 2, watch), 20) << watch;
    EXPECT_EQ(outside(f, v, -2, watch), 0) << watch;
  }
}

TEST(ControlFlowTapes, ReachAVariableThatABranchReturns) {
  const Variable v(5.f);
  const auto f = [&](Tensor x) {
    return cond(
        x > 0.f, [&] { return v.read_value(); }, [&] { return x; });
  };
  EXPECT_EQ(inside(f, v, 2), 1);
  for (const bool watch : {false, true}) EXPECT_EQ(outside(f, v, 2, watch), 1) << watch;
}

TEST(ControlFlowTapes, ReachAVariableThatALoopReadsAndItsReadsOutside) {
  const Variable v(5.f);
  const auto f = [&](Tensor x) { return times_power(x, v, 3) + v * 1000.f; };
  EXPECT_EQ(inside(f, v, 2), 1150);
  for (const bool watch : {false, true}) EXPECT_EQ(outside(f, v, 2, watch), 1150) << watch;
}

TEST(ControlFlowTapes, ReachAVariableInAFunctionThatWasTracedBefore) {
  const Variable v(5.f);
  const auto traced = function([&](Tensor x) {
    return cond(
        x > 0.f, [&] { return x * v * v; }, [&] { return x * 3.f; });
  });
  traced(Tensor(1.f));
  EXPECT_EQ(inside([&](Tensor x) { return traced(x); }, v, 2), 20);
}

TEST(ControlFlowTapes, PassTheGradientOfWhatABranchReturnsUnchanged) {
  const auto traced = function([](Tensor x) {
    return cond(
        x > 0.f, [&] { return x; }, [&] { return x * 3.f; });
  });
  const Tensor x = identity(Tensor(2.f));
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(traced(x), x).dense().to<float>(), 1);
}

TEST(ControlFlowTapes, PassTheGradientOfALoopThatDoesNotRunUnchanged) {
  const Variable v(5.f);
  const auto traced = function([&](Tensor x) { return times_power(x, v, 0); });
  const Tensor x = identity(Tensor(2.f));
  GradientTape tape;
  tape.watch(x);
  EXPECT_EQ(tape.gradient(traced(x), x).dense().to<float>(), 1);
}

TEST(ControlFlowTapes, LeaveOutWhatIsNotTrainable) {
  const Variable v(5.f, {.trainable = false});
  const auto f = [&](Tensor x) {
    return cond(
        x > 0.f, [&] { return x * v; }, [&] { return x * 3.f; });
  };
  EXPECT_EQ(inside(f, v, 2), 0);
  EXPECT_EQ(outside(f, v, 2, false), 0);
}

TEST(ControlFlowTapes, TrainInATracedStep) {
  Variable v(5.f);
  optim::Sgd optimizer({.learning_rate = 0.25});
  const auto step = function([&](Tensor x) {
    return optimizer.minimize(
        [&] {
          return cond(
              x > 0.f, [&] { return square(v - 3.f); }, [&] { return square(v + 1.f); });
        },
        {v});
  });
  step(Tensor(1.f));
  EXPECT_EQ(v.read_value().to<float>(), 4.f);
  step(Tensor(-1.f));
  EXPECT_EQ(v.read_value().to<float>(), 1.5f);
}

}  // namespace
}  // namespace cohort
