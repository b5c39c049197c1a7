// Optimizers and layers with torch's formulas and with TensorFlow's, beside what the two computed
// (tests/recorded/record_optimizers.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <ostream>

#include "cohort/checkpoint.h"
#include "cohort/function.h"
#include "cohort/graph.h"
#include "cohort/graph_variable.h"
#include "cohort/nn_layers.h"
#include "cohort/ops.h"
#include "cohort/optim.h"
#include "cohort/session.h"
#include "recorded/optimizers.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"

namespace cohort::optim {
namespace {

using Doubles = std::vector<double>;

constexpr int kElements = 4;

// sin(0.7 i + phase), in the recording too.
Doubles wave(double phase) {
  Doubles values;
  for (int i = 0; i < kElements; ++i) values.push_back(std::sin(0.7 * i + phase));
  return values;
}

double usual_rate(int step) { return step < 3 ? 0.1 : 0.02; }

// The steps that were recorded under that name, with either formula.
struct Case {
  friend void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

  std::string name;
  std::function<std::unique_ptr<Optimizer>(Formula)> make;
  Doubles first = wave(0.3);
  std::function<Doubles(int step)> gradient = [](int step) { return wave(1.1 * step); };
  std::function<double(int step)> rate = usual_rate;  // none: the default
  int steps = 6;
};

template <typename Kind, typename Options>
Case make_case(std::string name, Options options) {
  return {std::move(name), [options](Formula formula) {
            Options chosen = options;
            chosen.formula = formula;
            return std::make_unique<Kind>(chosen);
          }};
}

// The steps of torch with the dense gradients that torch.nn.Embedding has by default.
template <typename Kind, typename Options>
Case with_all_rows(std::string name, Options options) {
  options.lazy_rows = false;
  return make_case<Kind, Options>(std::move(name), options);
}

template <typename Kind, typename Options>
Case defaults(std::string name) {
  Case made = make_case<Kind, Options>(std::move(name), {});
  made.rate = nullptr;
  return made;
}

Case tiny_gradient() {
  Case made =
      make_case<RmsProp, RmsPropOptions>("RmsPropTinyGradient", {.rho = 0.9, .epsilon = 1e-7});
  made.first = Doubles(kElements, 1);
  made.gradient = [](int) { return Doubles(kElements, 1e-6); };
  made.rate = [](int) { return 0.01; };
  made.steps = 3;
  return made;
}

Case falling_rate() {
  Case made = make_case<Sgd, SgdOptions>("MomentumFallingRate", {.momentum = 0.9});
  made.first = Doubles(kElements, 1);
  made.gradient = [](int) { return Doubles(kElements, 1); };
  made.rate = [](int step) { return step < 2 ? 0.1 : 0.01; };
  made.steps = 4;
  return made;
}

Case ftrl() {
  return {.name = "FtrlDefaults",
          .make = [](Formula) { return std::make_unique<Ftrl>(); },
          .rate = nullptr};
}

std::vector<Case> cases() {
  return {make_case<Sgd, SgdOptions>("Sgd", {}),
          make_case<Sgd, SgdOptions>("SgdMomentum", {.momentum = 0.9}),
          make_case<Sgd, SgdOptions>("SgdNesterov", {.momentum = 0.8, .nesterov = true}),
          make_case<Sgd, SgdOptions>("SgdDecay", {.momentum = 0.9, .weight_decay = 0.5}),
          make_case<Adam, AdamOptions>("Adam", {}),
          make_case<Adam, AdamOptions>("AdamEpsilon", {.epsilon = 0.1}),
          make_case<Adam, AdamOptions>("AdamDecay", {.weight_decay = 0.5}),
          make_case<AdamW, AdamWOptions>("AdamW", {}),
          make_case<Adagrad, AdagradOptions>("Adagrad", {}),
          make_case<Adagrad, AdagradOptions>("AdagradEpsilon", {.epsilon = 0.1}),
          make_case<Adagrad, AdagradOptions>("AdagradDecay", {.weight_decay = 0.5}),
          make_case<RmsProp, RmsPropOptions>("RmsProp", {}),
          make_case<RmsProp, RmsPropOptions>("RmsPropEpsilon", {.epsilon = 0.1}),
          make_case<RmsProp, RmsPropOptions>("RmsPropMomentum", {.momentum = 0.9}),
          make_case<RmsProp, RmsPropOptions>("RmsPropCentered", {.epsilon = 0.1, .centered = true}),
          make_case<RmsProp, RmsPropOptions>("RmsPropDecay", {.weight_decay = 0.5}),
          defaults<Adam, AdamOptions>("AdamDefaults"),
          defaults<AdamW, AdamWOptions>("AdamWDefaults"),
          defaults<Adagrad, AdagradOptions>("AdagradDefaults"),
          defaults<RmsProp, RmsPropOptions>("RmsPropDefaults"),
          ftrl(),
          tiny_gradient(),
          falling_rate()};
}

template <size_t kCount>
const recorded::Values& find(const recorded::Values (&all)[kCount], const std::string& name) {
  const auto* const found = std::find_if(std::begin(all), std::end(all),
                                         [&](const auto& values) { return values.name == name; });
  if (found == std::end(all)) throw Error(Code::NotFound, "nothing was recorded for " + name);
  return *found;
}

void expect_near(const Tensor& found, const Doubles& expected, double tolerance) {
  const Doubles values = cast(found, kFloat64).to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
  }
}

using Step = std::function<void(Optimizer& optimizer, const Tensor& gradient, const Variable& v)>;

void apply_plainly(Optimizer& optimizer, const Tensor& gradient, const Variable& v) {
  optimizer.apply_gradients({gradient}, {v});
}

Tensor take_steps(const Case& each, Formula formula, DType dtype, const Step& step) {
  const std::unique_ptr<Optimizer> optimizer = each.make(formula);
  const Variable v(cast(Tensor::from(each.first, {kElements}), dtype));
  for (int i = 0; i < each.steps; ++i) {
    if (each.rate) optimizer->set_learning_rate(each.rate(i));
    step(*optimizer, cast(Tensor::from(each.gradient(i), {kElements}), dtype), v);
  }
  return v.read_value();
}

constexpr double kRounding = 1e-12;  // of float64

class Formulas : public ::testing::TestWithParam<Case> {
 protected:
  void expect_recorded(DType dtype, double tolerance, const Step& step) const {
    const recorded::Values& values = find(recorded::kOptimizers, GetParam().name);
    if (!values.torch.empty()) {
      SCOPED_TRACE("torch");
      expect_near(take_steps(GetParam(), Formula::Torch, dtype, step), values.torch, tolerance);
    }
    SCOPED_TRACE("TensorFlow");
    expect_near(take_steps(GetParam(), Formula::TensorFlow, dtype, step), values.tensorflow,
                tolerance);
  }
};

TEST_P(Formulas, GiveWhatTorchAndTensorFlowComputed) {
  expect_recorded(kFloat64, kRounding, apply_plainly);
}

TEST_P(Formulas, GiveTheSameInFloat32) { expect_recorded(kFloat32, 3e-6, apply_plainly); }

TEST_P(Formulas, GiveTheSameForRows) {
  expect_recorded(kFloat64, kRounding,
                  [](Optimizer& optimizer, const Tensor& gradient, const Variable& v) {
                    const IndexedSlices rows{gradient, range(kElements), {kElements}};
                    optimizer.apply_gradients({Gradient(rows)}, {v});
                  });
}

// Odd rows have a gradient in every second step, even rows in the steps between.
void apply_half(Optimizer& optimizer, const Tensor& gradient, const Variable& v, bool as_rows) {
  const int64_t first = optimizer.iterations().read_value().to<int64_t>() % 2;
  const Tensor rows = range(kElements / 2) * int64_t{2} + first;
  const IndexedSlices half{gather(gradient, rows), rows, {kElements}};
  optimizer.apply_gradients({as_rows ? Gradient(half) : Gradient(Gradient(half).dense())}, {v});
}

void expect_same_as_dense(const Case& each, Formula formula) {
  SCOPED_TRACE(formula == Formula::Torch ? "torch" : "TensorFlow");
  const auto after = [&](bool as_rows) {
    const Step half = [=](Optimizer& optimizer, const Tensor& gradient, const Variable& v) {
      apply_half(optimizer, gradient, v, as_rows);
    };
    return take_steps(each, formula, kFloat64, half).to_vector<double>();
  };
  EXPECT_EQ(after(true), after(false));
}

TEST_P(Formulas, OfTensorFlowMoveRowsWithoutAGradientAsKerasDoes) {
  if (GetParam().name == "FtrlDefaults") return;  // its rows are lazy
  expect_same_as_dense(GetParam(), Formula::TensorFlow);
}

TEST_P(Formulas, GiveTheSameInATracedFunction) {
  expect_recorded(kFloat64, kRounding,
                  [](Optimizer& optimizer, const Tensor& gradient, const Variable& v) {
                    function([&](Tensor by) { optimizer.apply_gradients({by}, {v}); })(gradient);
                  });
}

INSTANTIATE_TEST_SUITE_P(All, Formulas, ::testing::ValuesIn(cases()),
                         [](const auto& param) { return param.param.name; });

TEST(OptimizerRows, MoveWithoutAGradientInTorchsFormulasWhereTheyAreNotLazy) {
  for (const Case& each :
       {with_all_rows<Sgd, SgdOptions>("Momentum", {.momentum = 0.9}),
        with_all_rows<Sgd, SgdOptions>("SgdDecay", {.weight_decay = 0.5}),
        with_all_rows<Adam, AdamOptions>("Adam", {}),
        with_all_rows<AdamW, AdamWOptions>("AdamW", {}),
        with_all_rows<Adagrad, AdagradOptions>("AdagradDecay", {.weight_decay = 0.5}),
        with_all_rows<RmsProp, RmsPropOptions>("RmsProp", {})}) {
    SCOPED_TRACE(each.name);
    expect_same_as_dense(each, Formula::Torch);
  }
}

TEST(OptimizerFormula, SurvivesSerialization) {
  const std::string bytes = [] {
    Graph graph;
    const auto building = graph.as_default();
    const Variable v = get_variable("v", {.shape = {}, .dtype = kFloat64, .initializer = ones()});
    RmsProp optimizer({.formula = Formula::TensorFlow, .learning_rate = 0.01});
    optimizer.apply_gradients({constant(Tensor(1e-6))}, {v});
    return graph.serialize();
  }();
  Graph graph = Graph::deserialize(bytes);
  const auto building = graph.as_default();
  Session session;
  session.run(global_variables_initializer());
  for (int step = 0; step < 3; ++step) session.run(graph.tensor("Group"));
  EXPECT_NEAR(session.run(trainable_variables()[0].read_value()).to<double>(), 0.9999051, 1e-7);
}

// The slot of torch's formula has no rate in it.
TEST(OptimizerFormula, ACheckpointOfOneIsNotReadAsThatOfTheOther) {
  const TemporaryDirectory directory;
  Variable v(1.0, {.name = "v"});
  Sgd torchs({.momentum = 0.9});
  torchs.apply_gradients({Tensor(1.0)}, {v});
  const std::string path =
      Checkpoint({{"v", v}, {"optimizer", torchs}}).save(directory.path() + "/c");
  Sgd tensorflows({.formula = Formula::TensorFlow, .momentum = 0.9});
  tensorflows.apply_gradients({Tensor(1.0)}, {v});
  Checkpoint other({{"v", v}, {"optimizer", tensorflows}});
  EXPECT_ERROR(Code::FailedPrecondition, "momentum", other.restore(path).assert_consumed());
}

TEST(OptimizerFormula, TorchsIsTheDefault) {
  const Variable v(1.0);
  RmsProp optimizer;
  EXPECT_EQ(optimizer.learning_rate().to<double>(), 0.01);
  Sgd momentum({.momentum = 0.9});
  momentum.apply_gradients({Tensor(1.0)}, {v});
  EXPECT_EQ(momentum.slot(v, "momentum").read_value().to<double>(), 1);
}

constexpr int kChannels = 2;
constexpr int kExamples = 3;

Tensor batch(int step) {
  Doubles values;
  for (int i = 0; i < kExamples * kChannels; ++i) {
    values.push_back(std::sin(0.7 * i + 1.1 * step) + i % 2);
  }
  return Tensor::from(values, {kExamples, kChannels});
}

void expect_recorded(const Tensor& found, const std::string& name, Formula formula) {
  SCOPED_TRACE(name);
  const recorded::Values& values = find(recorded::kNorms, name);
  const bool torch = formula == Formula::Torch;
  // Keras' layers keep epsilon and momentum in float32.
  expect_near(found, torch ? values.torch : values.tensorflow, torch ? kRounding : 5e-8);
}

using Layer = std::function<Tensor(const Tensor&)>;

void expect_recorded_batch_norm(Formula formula, const std::function<Layer(Layer)>& around) {
  SCOPED_TRACE(formula == Formula::Torch ? "torch" : "TensorFlow");
  nn::BatchNorm norm(kChannels, {.formula = formula, .dtype = kFloat64});
  const Layer layer = around(norm);
  Tensor last;
  for (int step = 0; step < 3; ++step) last = layer(batch(step));
  expect_recorded(last, "batch_norm_training", formula);
  expect_recorded(norm.moving_mean(), "batch_norm_moving_mean", formula);
  expect_recorded(norm.moving_variance(), "batch_norm_moving_variance", formula);
  norm.eval();
  expect_recorded(norm(batch(3)), "batch_norm_inference", formula);
}

TEST(BatchNormFormulas, GiveWhatTorchAndTensorFlowComputed) {
  for (const Formula formula : {Formula::Torch, Formula::TensorFlow}) {
    expect_recorded_batch_norm(formula, [](Layer layer) { return layer; });
  }
}

TEST(BatchNormFormulas, GiveTheSameInATracedFunction) {
  for (const Formula formula : {Formula::Torch, Formula::TensorFlow}) {
    expect_recorded_batch_norm(formula, [](Layer layer) -> Layer {
      const auto traced = function([layer](Tensor x) { return layer(x); });
      return [traced](const Tensor& x) { return traced(x); };
    });
  }
}

TEST(BatchNormFormulas, MomentumHasTheMeaningOfTheFormula) {
  nn::BatchNorm torchs(kChannels, {.momentum = 0.25, .dtype = kFloat64});
  torchs(batch(0));
  expect_recorded(torchs.moving_variance(), "batch_norm_momentum", Formula::Torch);
  nn::BatchNorm tensorflows(kChannels,
                            {.formula = Formula::TensorFlow, .momentum = 0.75, .dtype = kFloat64});
  tensorflows(batch(0));
  expect_recorded(tensorflows.moving_variance(), "batch_norm_momentum", Formula::TensorFlow);
}

TEST(LayerNormFormulas, GiveWhatTorchAndTensorFlowComputed) {
  for (const Formula formula : {Formula::Torch, Formula::TensorFlow}) {
    const nn::LayerNorm norm(kChannels, {.formula = formula, .dtype = kFloat64});
    expect_recorded(norm(batch(0) * 0.01), "layer_norm", formula);
  }
}

}  // namespace
}  // namespace cohort::optim
