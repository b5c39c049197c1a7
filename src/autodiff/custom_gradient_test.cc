#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "cohort/gradient.h"
#include "cohort/ops.h"
#include "cohort/variable.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Doubles = std::vector<double>;
using Inputs = std::span<const Tensor>;

// x * x, which claims to have slope 100.
Tensor steep_square(const Tensor& x) {
  return custom_gradient(
      [](Inputs inputs) {
        return WithGradient{{inputs[0] * inputs[0]},
                            [](Inputs g) { return Gradients{g[0] * 100.0}; }};
      },
      {x})[0];
}

TEST(CustomGradient, ReplacesTheSlope) {
  const Tensor x({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = steep_square(x * 3.0);
  EXPECT_EQ(y.to_vector<double>(), Doubles({9, 36}));
  EXPECT_EQ(tape.gradient(y * 2.0, x).dense().to_vector<double>(), Doubles({600, 600}));
}

TEST(CustomGradient, WorksWithoutATape) { EXPECT_EQ(steep_square(3.0).to<double>(), 9); }

TEST(CustomGradient, TakesSeveralInputsAndOutputs) {
  const Tensor a(2.0);
  const Tensor b(5.0);
  GradientTape tape;
  tape.watch(a);
  tape.watch(b);
  const std::vector<Tensor> outputs = custom_gradient(
      [](Inputs in) {
        return WithGradient{{in[0] + in[1], in[0] * in[1]}, [](Inputs g) {
                              return Gradients{g[0] + g[1] * 10.0, Gradient()};
                            }};
      },
      {a, b});
  const Gradients gradients =
      tape.gradient(outputs[0] * 1.0 + outputs[1] * 2.0, std::vector<Tensor>{a, b});
  EXPECT_EQ(gradients[0].dense().to<double>(), 21);
  EXPECT_FALSE(gradients[1].defined());
}

TEST(CustomGradient, GetsZerosForAnUnusedOutput) {
  const Tensor x({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const std::vector<Tensor> outputs = custom_gradient(
      [](Inputs in) {
        return WithGradient{{in[0] * 1.0, in[0] * 2.0},
                            [](Inputs g) { return Gradients{g[0] + g[1]}; }};
      },
      {x});
  EXPECT_EQ(tape.gradient(outputs[1], x).dense().to_vector<double>(), Doubles({1, 1}));
}

TEST(CustomGradient, MayReturnItsInput) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const std::vector<Tensor> outputs = custom_gradient(
      [](Inputs in) {
        return WithGradient{{in[0], in[0]},
                            [](Inputs g) { return Gradients{g[0] * 5.0 + g[1] * 7.0}; }};
      },
      {x});
  EXPECT_EQ(tape.gradient(outputs[0] + outputs[1] * 10.0 + x, x).dense().to<double>(), 76);
}

TEST(CustomGradient, RecordsNothingOfItsBody) {
  const Variable hidden(3.0);
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [&](Inputs in) {
        return WithGradient{{in[0] * hidden}, [](Inputs g) { return Gradients{g[0]}; }};
      },
      {x})[0];
  EXPECT_FALSE(tape.gradient(y, hidden).defined());
}

TEST(CustomGradient, MayUseATapeOfItsOwn) {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = custom_gradient(
      [](Inputs in) {
        GradientTape inner;
        inner.watch(in[0]);
        const Tensor value = in[0] * in[0];
        const Tensor slope = inner.gradient(value, in[0]);
        return WithGradient{{value}, [slope](Inputs g) { return Gradients{g[0] * slope * -1.0}; }};
      },
      {x})[0];
  EXPECT_EQ(tape.gradient(y, x).dense().to<double>(), -4);
}

// log(1 + e^x), written so that large x do not overflow in the gradient.
Tensor log1p_exp(const Tensor& x) {
  return custom_gradient(
      [](Inputs in) {
        const Tensor e = exp(in[0]);
        return WithGradient{{log1p(e)},
                            [e](Inputs g) { return Gradients{g[0] * (1.0 - 1.0 / (1.0 + e))}; }};
      },
      {x})[0];
}

TEST(CustomGradient, KeepsWhatItsFunctionNeeds) {
  const Tensor x(1.0);
  GradientTape tape;
  tape.watch(x);
  EXPECT_NEAR(tape.gradient(log1p_exp(x), x).dense().to<double>(), 1 / (1 + std::exp(-1.0)), 1e-12);
}

TEST(CustomGradient, HasSecondDerivativesThroughItsInputs) {
  const Tensor x(2.0);
  GradientTape outer;
  outer.watch(x);
  Tensor slope;
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor y = custom_gradient(
        [](Inputs in) {
          const Tensor kept = in[0];
          return WithGradient{{kept * kept * kept},
                              [kept](Inputs g) { return Gradients{g[0] * 3.0 * kept * kept}; }};
        },
        {x})[0];
    slope = inner.gradient(y, x);
  }
  EXPECT_EQ(slope.to<double>(), 12);
  EXPECT_EQ(outer.gradient(slope, x).dense().to<double>(), 12);
}

TEST(CustomGradient, HasSecondDerivativesThroughItsOutputs) {
  const Tensor x(0.5);
  GradientTape outer;
  outer.watch(x);
  Tensor slope;
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor y = custom_gradient(
        [](Inputs in) {
          const Tensor e = exp(in[0]);
          return WithGradient{{e}, [e](Inputs g) { return Gradients{g[0] * e}; }};
        },
        {x})[0];
    slope = inner.gradient(y, x);
  }
  EXPECT_NEAR(outer.gradient(slope, x).dense().to<double>(), std::exp(0.5), 1e-12);
}

TEST(CustomGradient, FreesItsFunctionWithTheTape) {
  const auto kept = std::make_shared<int>(1);
  const Tensor x(2.0);
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = custom_gradient(
        [&](Inputs in) {
          return WithGradient{{in[0] * 2.0}, [kept](Inputs g) { return Gradients{g[0]}; }};
        },
        {x})[0];
    EXPECT_EQ(kept.use_count(), 2);
    tape.gradient(y, x);
    EXPECT_EQ(kept.use_count(), 1);
  }
}

TEST(CustomGradient, NamesWrongFunctions) {
  const Tensor x({1.0, 2.0});
  const auto gradient_of = [&](const Gradients& returned) {
    GradientTape tape;
    tape.watch(x);
    const auto body = [&](Inputs in) {
      return WithGradient{{in[0] * 2.0}, [&](Inputs) { return returned; }};
    };
    return tape.gradient(custom_gradient(body, {x})[0], x);
  };
  EXPECT_ERROR(Code::InvalidArgument, "[CustomGradient] the function returned 2 gradients for 1",
               gradient_of({x, x}));
  EXPECT_ERROR(Code::InvalidArgument, "returned 0 gradients for 1 inputs", gradient_of({}));
  EXPECT_ERROR(Code::InvalidArgument, "a gradient of shape (3,) for input 0, which has (2,)",
               gradient_of({ones({3})}));
  EXPECT_ERROR(Code::InvalidArgument, "the function is empty", custom_gradient({}, {x}));
  EXPECT_ERROR(Code::InvalidArgument, "the function returned no gradient",
               custom_gradient(
                   [](Inputs in) {
                     return WithGradient{{in[0]}, {}};
                   },
                   {x}));
}

}  // namespace
}  // namespace cohort
