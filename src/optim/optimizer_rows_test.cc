// What holds for every optimizer: rows, slots, small dtypes, layouts.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "cohort/ops.h"
#include "cohort/optim.h"

namespace cohort::optim {
namespace {

using Doubles = std::vector<double>;

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Optimizer>()> make;
  std::vector<std::string> slots;
};

template <typename Made, typename Options>
Kind kind(std::string name, Options options, std::vector<std::string> slots) {
  return {std::move(name), [=] { return std::make_unique<Made>(options); }, std::move(slots)};
}

std::vector<Kind> kinds() {
  return {
      kind<Sgd>("Sgd", SgdOptions{.learning_rate = 0.1}, {}),
      kind<Sgd>("Momentum", SgdOptions{.learning_rate = 0.1, .momentum = 0.9}, {"momentum"}),
      kind<Adam>("Adam", AdamOptions{.learning_rate = 0.1}, {"mean", "square"}),
      kind<AdamW>("AdamW", AdamWOptions{.learning_rate = 0.1, .weight_decay = 0.1},
                  {"mean", "square"}),
      kind<Adagrad>("Adagrad", AdagradOptions{.learning_rate = 0.1}, {"accumulator"}),
      kind<RmsProp>("RmsProp", RmsPropOptions{.learning_rate = 0.1, .centered = true},
                    {"square", "momentum", "mean"}),
      kind<RmsProp>("TensorFlowRmsProp",
                    RmsPropOptions{.formula = Formula::TensorFlow,
                                   .learning_rate = 0.1,
                                   .momentum = 0.5,
                                   .lazy_rows = true},
                    {"square", "velocity", "mean"}),
      kind<Ftrl>("Ftrl", FtrlOptions{.learning_rate = 0.1}, {"accumulator", "linear"}),
  };
}

class EveryOptimizer : public ::testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<Optimizer> make() const { return GetParam().make(); }
};

Tensor start(DType dtype = kFloat64) {
  return cast(Tensor({{1.0, -2.0}, {3.0, 0.5}, {-1.5, 2.5}, {0.25, 4.0}}), dtype);
}
Tensor slope(DType dtype = kFloat64) {
  return cast(Tensor({{0.5, 1.0}, {-2.0, 0.25}, {1.5, -0.5}, {0.125, 3.0}}), dtype);
}

IndexedSlices rows_of_slope(const std::vector<int64_t>& rows) {
  const Tensor indices = Tensor::from(rows);
  return {gather(slope(), indices), indices, {4, 2}};
}

Doubles values(const Tensor& tensor) { return tensor.to_vector<double>(); }

TEST_P(EveryOptimizer, ChangesTheRowsOfASparseGradientOnly) {
  const Variable dense(start());
  const Variable sparse(start());
  const auto for_dense = make();
  const auto for_sparse = make();
  for_dense->apply_gradients({slope()}, {dense});
  for_sparse->apply_gradients({slope()}, {sparse});
  std::vector<Tensor> before{sparse};
  for (const std::string& name : GetParam().slots) before.push_back(for_sparse->slot(sparse, name));

  for_dense->apply_gradients({slope()}, {dense});
  for_sparse->apply_gradients({rows_of_slope({3, 1})}, {sparse});
  std::vector<Tensor> expected{dense};
  std::vector<Tensor> after{sparse};
  for (const std::string& name : GetParam().slots) {
    expected.push_back(for_dense->slot(dense, name));
    after.push_back(for_sparse->slot(sparse, name));
  }
  for (size_t i = 0; i < after.size(); ++i) {
    for (const int64_t row : {0, 2}) EXPECT_EQ(values(after[i][row]), values(before[i][row]));
    for (const int64_t row : {1, 3}) EXPECT_EQ(values(after[i][row]), values(expected[i][row]));
  }
}

TEST_P(EveryOptimizer, CountsARowNamedTwiceOnceWithItsSum) {
  const Variable once(start());
  const Variable twice(start());
  make()->apply_gradients({IndexedSlices{Tensor({{4.0, 6.0}}), Tensor({2}), {4, 2}}}, {once});
  make()->apply_gradients({IndexedSlices{Tensor({{1.0, 2.0}, {3.0, 4.0}}), Tensor({2, 2}), {4, 2}}},
                          {twice});
  EXPECT_EQ(values(twice), values(once));
}

TEST_P(EveryOptimizer, TakesAGradientOfNoRows) {
  const Variable v(start());
  make()->apply_gradients({IndexedSlices{zeros({0, 2}), zeros({0}, kInt64), {4, 2}}}, {v});
  EXPECT_EQ(values(v), values(start()));
}

TEST_P(EveryOptimizer, NamesItsSlotsAfterTheVariable) {
  const Variable v(start(kFloat32), {.name = "kernel"});
  const auto optimizer = make();
  optimizer->apply_gradients({slope()}, {v});
  const std::vector<Variable> all = optimizer->variables();
  ASSERT_EQ(all.size(), GetParam().slots.size() + 1);
  EXPECT_EQ(all[0].name(), "iterations");
  for (size_t i = 0; i < GetParam().slots.size(); ++i) {
    EXPECT_EQ(all[i + 1].name(), "kernel/" + GetParam().slots[i]);
    const Variable slot = optimizer->slot(v, GetParam().slots[i]);
    EXPECT_EQ(slot.name(), all[i + 1].name());
    EXPECT_EQ(slot.shape(), v.shape());
    EXPECT_EQ(slot.dtype(), v.dtype());
    EXPECT_FALSE(slot.trainable());
  }
}

TEST_P(EveryOptimizer, TrainsSmallFloats) {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    SCOPED_TRACE(to_string(dtype));
    const Variable small(start(dtype));
    const Variable wide(start(kFloat32));
    const auto for_small = make();
    const auto for_wide = make();
    for (int step = 0; step < 5; ++step) {
      for_small->apply_gradients({slope(dtype)}, {small});
      for_wide->apply_gradients({slope(kFloat32)}, {wide});
    }
    for_small->apply_gradients({rows_of_slope({3, 1, 3})}, {small});
    for_wide->apply_gradients({rows_of_slope({3, 1, 3})}, {wide});
    EXPECT_EQ(small.read_value().dtype(), dtype);
    EXPECT_LE(max(abs(small - wide)).to<double>(), dtype == kFloat16 ? 0.02 : 0.15);
  }
}

TEST_P(EveryOptimizer, TakesStridedValuesAndGradients) {
  const Variable strided(transpose(Tensor({{1.0, 3.0, -1.5, 0.25}, {-2.0, 0.5, 2.5, 4.0}})));
  const Variable plain(start());
  const auto for_strided = make();
  const auto for_plain = make();
  const Tensor turned({{0.5, -2.0, 1.5, 0.125}, {1.0, 0.25, -0.5, 3.0}});
  for (int step = 0; step < 2; ++step) {
    for_strided->apply_gradients({transpose(turned)}, {strided});
    for_plain->apply_gradients({slope()}, {plain});
  }
  EXPECT_EQ(values(strided), values(plain));
}

TEST_P(EveryOptimizer, LeavesValuesThatWereReadAlone) {
  const Variable v(start());
  const Tensor before = v;
  make()->apply_gradients({slope()}, {v});
  EXPECT_EQ(values(before), values(start()));
  EXPECT_NE(values(v), values(start()));
}

TEST_P(EveryOptimizer, StandsStillAtRateZero) {
  const Variable v(start());
  const auto optimizer = make();
  optimizer->set_learning_rate(0.0);
  optimizer->apply_gradients({slope()}, {v});
  EXPECT_EQ(values(v), values(start()));
}

TEST_P(EveryOptimizer, FindsTheMinimum) {
  const Variable v({3.0, -2.0});
  const auto optimizer = make();
  const auto loss = [&] { return sum(square(v - Tensor({1.0, 0.5}))); };
  const double first = optimizer->minimize(loss, {v}).to<double>();
  EXPECT_NEAR(first, 4 + 6.25, 1e-12);
  for (int step = 0; step < 200; ++step) optimizer->minimize(loss, {v});
  EXPECT_LT(loss().to<double>(), 0.25 * first);
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, ::testing::ValuesIn(kinds()),
                         [](const auto& param) { return param.param.name; });

// The rule as its authors wrote it, one number at a time.
struct FtrlReference {
  double parameter;
  double accumulator;
  double linear = 0;

  void step(double gradient, const FtrlOptions& options, double rate) {
    const double power = -options.learning_rate_power;
    const double next = accumulator + gradient * gradient;
    const double sigma = (std::pow(next, power) - std::pow(accumulator, power)) / rate;
    linear += gradient - sigma * parameter;
    accumulator = next;
    if (std::abs(linear) <= options.l1) {
      parameter = 0;
    } else {
      const double sign = linear > 0 ? 1 : -1;
      parameter = -(linear - sign * options.l1) / (std::pow(next, power) / rate + 2 * options.l2);
    }
  }
};

TEST(Ftrl, FollowsItsRule) {
  for (const FtrlOptions& options :
       {FtrlOptions{}, FtrlOptions{.l1 = 0.5, .l2 = 0.1},
        FtrlOptions{.learning_rate_power = -0.7, .initial_accumulator = 0.5, .l2 = 0.3}}) {
    Ftrl optimizer(options);
    const Variable v({0.0, 1.0, -1.0});
    std::vector<FtrlReference> references;
    for (const double value : {0.0, 1.0, -1.0}) {
      references.push_back({value, options.initial_accumulator});
    }
    for (int step = 0; step < 20; ++step) {
      Doubles gradient;
      for (size_t i = 0; i < 3; ++i) {
        gradient.push_back(std::sin(1.3 * step + static_cast<double>(i)));
        references[i].step(gradient.back(), options, 0.001);
      }
      optimizer.apply_gradients({Tensor::from(gradient)}, {v});
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(values(v)[i], references[i].parameter, 1e-12);
    }
  }
}

}  // namespace
}  // namespace cohort::optim
