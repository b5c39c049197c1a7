#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "cohort/function.h"
#include "cohort/nn_layers.h"
#include "cohort/random.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

std::vector<std::string> names(const nn::Module& module) {
  std::vector<std::string> all;
  for (const auto& [name, variable] : module.named_variables()) all.push_back(name);
  return all;
}

TEST(DenseLayer, MultipliesAndAdds) {
  const nn::Dense layer(2, 3, {.kernel_initializer = nn::ones(), .bias_initializer = nn::ones()});
  EXPECT_EQ(layer(Tensor({{1.f, 2.f}})).to_vector<float>(), (std::vector<float>{4, 4, 4}));
  EXPECT_EQ(layer(ones({4, 5, 2})).shape(), Shape({4, 5, 3}));
}

TEST(DenseLayer, MayHaveNoBias) {
  const nn::Dense layer(2, 3, {.use_bias = false, .kernel_initializer = nn::ones()});
  EXPECT_FALSE(layer.bias().has_value());
  EXPECT_EQ(layer.variables().size(), 1u);
  EXPECT_EQ(layer(Tensor({{1.f, 2.f}})).to_vector<float>(), (std::vector<float>{3, 3, 3}));
}

TEST(DenseLayer, NamesWrongSizes) {
  EXPECT_ERROR(Code::InvalidArgument, "[Dense] the number of inputs must be at least 1, got 0",
               nn::Dense(0, 3));
  EXPECT_ERROR(Code::InvalidArgument, "[Dense] the number of outputs must be at least 1, got -2",
               nn::Dense(3, -2));
  EXPECT_ERROR(Code::InvalidArgument, "must be floating, got int32",
               nn::Dense(3, 2, {.dtype = kInt32}));
  EXPECT_ERROR(Code::InvalidArgument, "the initializer is empty",
               nn::Dense(3, 2, {.kernel_initializer = {}}));
  const nn::Dense layer(784, 10);
  EXPECT_ERROR(Code::InvalidArgument, "[Dense] expected an input with 784 inputs",
               layer(ones({32, 100})));
  EXPECT_ERROR(Code::InvalidArgument, "at least 2 dimensions, got shape (784,)",
               layer(ones({784})));
}

TEST(DenseLayer, EndsWithItsActivation) {
  const nn::Dense layer(1, 2, {.activation = nn::relu, .kernel_initializer = nn::ones()});
  EXPECT_EQ(layer(Tensor({{-3.f}, {2.f}})).to_vector<float>(), (std::vector<float>{0, 0, 2, 2}));
  const nn::Dense halved(
      1, 1,
      {.activation = [](const Tensor& x) { return x / 2; }, .kernel_initializer = nn::ones()});
  EXPECT_EQ(halved(Tensor({{3.f}})).to<float>(), 1.5f);
}

TEST(DenseLayer, LearnsItsNumberOfInputsFromTheFirstCall) {
  const nn::Dense layer(3);
  const nn::Dense copy = layer;
  EXPECT_TRUE(layer.variables().empty());
  EXPECT_ERROR(Code::FailedPrecondition, "[Dense] was made without the number of inputs",
               layer.kernel());
  EXPECT_ERROR(Code::InvalidArgument, "at least 2 dimensions, got shape (5,)", layer(ones({5})));
  EXPECT_EQ(layer(ones({2, 5})).shape(), Shape({2, 3}));
  EXPECT_EQ(copy.kernel().shape(), Shape({5, 3}));
  EXPECT_EQ(names(copy), (std::vector<std::string>{"kernel", "bias"}));
  EXPECT_ERROR(Code::InvalidArgument, "[Dense] expected an input with 5 inputs",
               layer(ones({2, 4})));
  EXPECT_ERROR(Code::InvalidArgument, "the number of outputs must be at least 1", nn::Dense(0));
}

TEST(Layers, AreBuiltWhenTheyHaveTheirVariables) {
  const nn::Sequential known{nn::Dense(3, 2), nn::relu, nn::BatchNorm(2), nn::Dropout(0.5)};
  EXPECT_TRUE(known.is_built());
  const nn::Sequential convolution{nn::Conv2d(2, 1)}, norm{nn::BatchNorm()},
      layer_norm{nn::LayerNorm()};
  const nn::Sequential nested{nn::Sequential{nn::Dense(1), nn::Dense(1)}};
  for (const nn::Sequential* const model : {&convolution, &norm, &layer_norm, &nested}) {
    EXPECT_FALSE(model->is_built());
    (*model)(ones({1, 2, 1, 1}));
    EXPECT_TRUE(model->is_built());
  }
}

TEST(Layers, MadeByTheirFirstCallAreThoseOfKnownSizes) {
  const auto built = [](const nn::Sequential& model) {
    const Tensor y = model(ones({2, 3, 6, 6}));
    std::vector<std::string> all;
    for (const auto& [name, variable] : model.named_variables()) {
      all.push_back(name + variable.shape().to_string());
    }
    return std::pair(all, y.to_vector<float>());
  };
  random::set_seed(2);
  const auto inferred = built(
      {nn::Conv2d(4, 3, {.padding = nn::PaddingMode::Same, .activation = nn::relu}),
       nn::BatchNorm(), nn::LayerNorm(), nn::Flatten(), nn::Dense(5, {.activation = nn::tanh})});
  random::set_seed(2);
  const auto known =
      built({nn::Conv2d(3, 4, 3, {.padding = nn::PaddingMode::Same}), nn::relu, nn::BatchNorm(4),
             nn::LayerNorm(6), nn::Flatten(), nn::Dense(144, 5), nn::tanh});
  EXPECT_EQ(inferred.second, known.second);
  ASSERT_EQ(inferred.first.size(), known.first.size());
  EXPECT_EQ(inferred.first[0], "0/kernel(4, 3, 3, 3)");
  EXPECT_EQ(inferred.first.back(), "4/bias(5,)");
}

TEST(Layers, AreMadeOnceByThreadsThatCallTogether) {
  const nn::Dense layer(2);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      layer(ones({1, 3}));
      EXPECT_EQ(layer.variables().size(), 2u);
    });
  }
  threads.clear();
  EXPECT_EQ(names(layer), (std::vector<std::string>{"kernel", "bias"}));
}

TEST(Layers, MayBeMadeInsideATracedFunction) {
  const nn::Sequential model{nn::Dense(3, {.activation = nn::relu}), nn::Dense(1)};
  const auto step = function([&](const Tensor& x) { return model(x); });
  const Tensor x = ones({2, 4});
  EXPECT_EQ(step(x).to_vector<float>(), model(x).to_vector<float>());
  EXPECT_EQ(model.variables().size(), 4u);
  EXPECT_EQ(step(x).to_vector<float>(), model(x).to_vector<float>());
}

TEST(Regularizers, AddTheirPenaltiesToTheLossesOfAModel) {
  const auto filled = [](double value, const nn::Regularizer& kernel, const nn::Regularizer& bias) {
    return nn::Dense(2, 1,
                     {.kernel_initializer = nn::constant(value),
                      .bias_initializer = nn::constant(-1),
                      .kernel_regularizer = kernel,
                      .bias_regularizer = bias});
  };
  const nn::Dense shared = filled(2, nn::l2(0.5), nullptr);
  const nn::Sequential model{
      shared, filled(-3, nn::l1(0.1), nn::l1_l2(1, 2)), shared,
      nn::Conv2d(1, 1, 1, {.kernel_initializer = nn::ones(), .kernel_regularizer = nn::l2(0.25)})};
  std::vector<float> found;
  for (const Tensor& loss : model.losses()) {
    EXPECT_EQ(loss.shape(), Shape{});
    found.push_back(loss.to<float>());
  }
  EXPECT_EQ(found, (std::vector<float>{4, 0.6f, 3, 0.25f}));
  shared.kernel().assign(Tensor({{1.f}, {1.f}}));
  EXPECT_EQ(model.losses()[0].to<float>(), 1);
  EXPECT_TRUE(nn::Dense(2, 1).losses().empty());
  EXPECT_ERROR(Code::InvalidArgument, "[l2] the factor must not be negative, got -1", nn::l2(-1));
}

TEST(Regularizers, HaveGradients) {
  const nn::Dense layer(1, 1,
                        {.kernel_initializer = nn::constant(3), .kernel_regularizer = nn::l2(0.5)});
  GradientTape tape;
  const Tensor penalty = layer.losses()[0];
  EXPECT_EQ(tape.gradient(penalty, layer.kernel()).dense().to<float>(), 3);
}

std::vector<float> losses_of(const nn::Module& model) {
  std::vector<float> all;
  for (const Tensor& loss : model.losses()) all.push_back(loss.to<float>());
  return all;
}

TEST(Regularizers, OfNormsAndTablesAddTheirPenalties) {
  const nn::Embedding table(2, 3, {.initializer = nn::constant(2), .regularizer = nn::l2(0.5)});
  EXPECT_EQ(losses_of(table), (std::vector<float>{12}));
  const nn::BatchNorm batch({.scale_regularizer = nn::l1(1), .offset_regularizer = nn::l2(1)});
  const nn::LayerNorm layer({.scale_regularizer = nn::l1(2), .offset_regularizer = nn::l2(1)});
  EXPECT_TRUE(losses_of(batch).empty());
  EXPECT_TRUE(losses_of(layer).empty());
  batch(ones({2, 4}));
  layer(ones({2, 4}));
  EXPECT_EQ(losses_of(batch), (std::vector<float>{4, 0}));
  EXPECT_EQ(losses_of(layer), (std::vector<float>{8, 0}));
  layer.offset().assign(ones({4}));
  EXPECT_EQ(losses_of(layer), (std::vector<float>{8, 4}));
  EXPECT_TRUE(nn::Embedding(2, 3).losses().empty());
  EXPECT_TRUE(nn::BatchNorm(3).losses().empty());
  EXPECT_TRUE(nn::LayerNorm(3).losses().empty());
}

TEST(Regularizers, OfALayerWithoutVariablesAreEmpty) {
  const nn::Dense layer(1, {.kernel_regularizer = nn::l2()});
  EXPECT_TRUE(layer.losses().empty());
  layer(ones({1, 2}));
  EXPECT_EQ(layer.losses().size(), 1u);
}

TEST(Conv2dLayer, ConvolvesImages) {
  const nn::Conv2d layer(3, 8, {3, 5}, {.stride = 2, .padding = nn::PaddingMode::Same});
  EXPECT_EQ(layer.kernel().shape(), Shape({8, 3, 3, 5}));
  EXPECT_EQ(layer(ones({2, 3, 9, 10})).shape(), Shape({2, 8, 5, 5}));
}

TEST(Conv2dLayer, NamesWrongSizes) {
  EXPECT_ERROR(Code::InvalidArgument, "[Conv2d] the number of input channels", nn::Conv2d(0, 3, 3));
  EXPECT_ERROR(Code::InvalidArgument, "[Conv2d] the number of output channels",
               nn::Conv2d(3, 0, 3));
  EXPECT_ERROR(Code::InvalidArgument, "the kernel's width", nn::Conv2d(3, 4, {3, 0}));
  EXPECT_ERROR(Code::InvalidArgument, "the stride", nn::Conv2d(3, 4, 3, {.stride = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "2 groups do not divide 3 input",
               nn::Conv2d(3, 4, 3, {.groups = 2}));
  const nn::Conv2d layer(3, 4, 3);
  EXPECT_ERROR(Code::InvalidArgument, "[Conv2d] expected an input with 3 channels",
               layer(ones({1, 1, 8, 8})));
  EXPECT_ERROR(Code::InvalidArgument, "(batch, 3, height, width), got shape (3, 8, 8)",
               layer(ones({3, 8, 8})));
}

TEST(PoolLayers, ShrinkImages) {
  EXPECT_EQ(nn::MaxPool2d(2)(ones({1, 2, 6, 6})).shape(), Shape({1, 2, 3, 3}));
  EXPECT_EQ(nn::AvgPool2d(3, {.stride = 1})(ones({1, 2, 6, 6})).shape(), Shape({1, 2, 4, 4}));
}

TEST(FlattenLayer, KeepsTheBatch) {
  EXPECT_EQ(nn::Flatten()(ones({4, 2, 3})).shape(), Shape({4, 6}));
  EXPECT_EQ(nn::Flatten()(ones({0, 2, 3})).shape(), Shape({0, 6}));
  EXPECT_EQ(nn::Flatten()(ones({4})).shape(), Shape({4, 1}));
  EXPECT_ERROR(Code::InvalidArgument, "(batch, ...)", nn::Flatten()(Tensor(1.f)));
}

TEST(DropoutLayer, WorksInTrainingOnly) {
  nn::Dropout layer(0.5);
  EXPECT_EQ(min(layer(ones({1000}))).to<float>(), 0);
  layer.eval();
  EXPECT_EQ(min(layer(ones({1000}))).to<float>(), 1);
  EXPECT_ERROR(Code::InvalidArgument,
               "[Dropout] the rate must be at least 0 and less than 1, got 1", nn::Dropout(1.0));
}

TEST(BatchNormLayer, MovesItsAveragesInTrainingAndUsesThemOtherwise) {
  nn::BatchNorm layer(1, {.momentum = 0.5});
  const Tensor x({{2.f}, {4.f}});
  EXPECT_NEAR(layer(x).at<float>({1, 0}), 1, 1e-3);
  EXPECT_FLOAT_EQ(layer.moving_mean().read_value().to<float>(), 1.5f);
  EXPECT_FLOAT_EQ(layer.moving_variance().read_value().to<float>(), 1.5f);
  layer.eval();
  EXPECT_NEAR(layer(Tensor({{1.5f}})).to<float>(), 0, 1e-6);
  EXPECT_FLOAT_EQ(layer.moving_mean().read_value().to<float>(), 1.5f);
}

TEST(BatchNormLayer, LearnsNothingFromAnEmptyBatch) {
  const nn::BatchNorm layer(2);
  EXPECT_EQ(layer(zeros({0, 2})).shape(), Shape({0, 2}));
  EXPECT_EQ(layer.moving_variance().read_value().to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(BatchNormLayer, TrainsScaleAndOffsetOnly) {
  const nn::BatchNorm layer(2);
  EXPECT_EQ(layer.variables().size(), 4u);
  EXPECT_EQ(layer.trainable_variables().size(), 2u);
  EXPECT_ERROR(Code::InvalidArgument, "[BatchNorm] expected an input with 2 channels",
               layer(ones({2, 3})));
  EXPECT_ERROR(Code::InvalidArgument, "[BatchNorm] the number of channels", nn::BatchNorm(0));
  EXPECT_ERROR(Code::InvalidArgument, "momentum must be between 0 and 1",
               nn::BatchNorm(1, {.momentum = 2}));
}

TEST(LayerNormLayer, NormalisesEachExample) {
  const nn::LayerNorm layer(2);
  const Tensor y = layer(Tensor({{1.f, 3.f}, {10.f, 30.f}}));
  EXPECT_NEAR(y.at<float>({0, 0}), -1, 1e-3);
  EXPECT_NEAR(y.at<float>({1, 1}), 1, 1e-3);
  EXPECT_ERROR(Code::InvalidArgument, "[LayerNorm] expected an input with 2 elements",
               layer(ones({2, 3})));
  EXPECT_ERROR(Code::InvalidArgument, "[LayerNorm] each size must be at least 1, got 0",
               nn::LayerNorm(Shape{3, 0}));
  EXPECT_ERROR(Code::InvalidArgument, "at least one dimension", nn::LayerNorm(Shape{}));
}

TEST(LayerNormLayer, LearnsItsSizeFromItsFirstCall) {
  const nn::LayerNorm layer;
  const nn::LayerNorm copy = layer;
  EXPECT_TRUE(layer.variables().empty());
  EXPECT_ERROR(Code::FailedPrecondition, "[LayerNorm] was made without the number of elements",
               layer.scale());
  EXPECT_ERROR(Code::InvalidArgument, "[LayerNorm] the first call sets the number of elements",
               layer(Tensor(1.f)));
  const Tensor x({{1.f, 3.f}, {10.f, 30.f}});
  EXPECT_EQ(layer(x).to_vector<float>(), nn::LayerNorm(2)(x).to_vector<float>());
  EXPECT_EQ(copy.scale().shape(), Shape({2}));
  EXPECT_EQ(names(copy), (std::vector<std::string>{"scale", "offset"}));
  EXPECT_ERROR(Code::InvalidArgument, "[LayerNorm] expected an input with 2 elements",
               layer(ones({2, 3})));
}

TEST(EmbeddingLayer, LooksRowsUp) {
  const nn::Embedding layer(10, 4);
  EXPECT_EQ(layer(Tensor({{1, 2, 3}})).shape(), Shape({1, 3, 4}));
  EXPECT_ERROR(Code::InvalidArgument, "[Embedding] the number of ids", nn::Embedding(0, 4));
}

using Ids = std::vector<int64_t>;

TEST(StringLookupLayer, GivesTheIdsOfAVocabulary) {
  const nn::StringLookup lookup({"yes", "no"});
  EXPECT_EQ(lookup.vocabulary_size(), 3);
  const Tensor ids = lookup(Tensor({{"no", "yes"}, {"perhaps", "no"}}));
  EXPECT_EQ(ids.shape(), Shape({2, 2}));
  EXPECT_EQ(ids.to_vector<int64_t>(), (Ids{2, 1, 0, 2}));
  EXPECT_EQ(lookup.inverse(ids).to_vector<std::string>(),
            (std::vector<std::string>{"no", "yes", "[UNK]", "no"}));
  EXPECT_EQ(lookup(Tensor("yes")).to<int64_t>(), 1);
  EXPECT_EQ(lookup(Tensor::from(std::vector<std::string>())).shape(), Shape({0}));
}

TEST(StringLookupLayer, WithoutAnIdForOthersRefusesThem) {
  const nn::StringLookup lookup({"yes", "no"}, {.num_oov_indices = 0});
  EXPECT_EQ(lookup(Tensor({"no", "yes"})).to_vector<int64_t>(), (Ids{1, 0}));
  EXPECT_ERROR(Code::InvalidArgument, "'perhaps' is not in the vocabulary of 2 strings",
               lookup(Tensor({"no", "perhaps"})));
  const auto traced = function([&](const Tensor& words) { return lookup(words); });
  EXPECT_EQ(traced(Tensor({"no", "yes"})).to_vector<int64_t>(), (Ids{1, 0}));
  EXPECT_ERROR(Code::InvalidArgument, "", traced(Tensor({"no", "perhaps"})));
}

TEST(StringLookupLayer, IsPartOfTracedModels) {
  const nn::StringLookup lookup({"a", "b", "c"});
  const nn::Embedding table(lookup.vocabulary_size(), 2);
  const auto embed = function([&](const Tensor& words) { return table(lookup(words)); });
  for (const Tensor& words : {Tensor({"c", "a"}), Tensor({"b"}), Tensor({"x", "y", "a"})}) {
    EXPECT_EQ(embed(words).to_vector<float>(), table(lookup(words)).to_vector<float>());
  }
}

TEST(StringLookupLayer, NamesABadVocabulary) {
  EXPECT_ERROR(Code::InvalidArgument, "the vocabulary is empty", nn::StringLookup({}));
  EXPECT_ERROR(Code::InvalidArgument, "'a' occurs twice", nn::StringLookup({"a", "b", "a"}));
  EXPECT_ERROR(Code::InvalidArgument, "'[UNK]' is in the vocabulary and also stands for unknown",
               nn::StringLookup({"[UNK]", "a"}));
  EXPECT_ERROR(Code::InvalidArgument, "must be 0 or 1, got 2",
               nn::StringLookup({"a"}, {.num_oov_indices = 2}));
  EXPECT_ERROR(Code::InvalidArgument, "expected strings", nn::StringLookup({"a"})(Tensor({1, 2})));
}

TEST(Sequential, CollectsVariablesByPath) {
  nn::Sequential model{nn::Dense(4, 3), nn::relu, nn::Dense(3, 2)};
  EXPECT_EQ(names(model), (std::vector<std::string>{"0/kernel", "0/bias", "2/kernel", "2/bias"}));
  EXPECT_EQ(model(ones({5, 4})).shape(), Shape({5, 2}));
}

TEST(Sequential, Nests) {
  const nn::Sequential inner{nn::Dense(4, 3), nn::tanh};
  const nn::Sequential model{inner, nn::Sequential{nn::Dense(3, 2)}};
  EXPECT_EQ(names(model),
            (std::vector<std::string>{"0/0/kernel", "0/0/bias", "1/0/kernel", "1/0/bias"}));
}

TEST(Sequential, OfOneSequentialIsThatOne) {
  const nn::Sequential inner{nn::Dense(4, 3), nn::relu};
  const nn::Sequential same{inner};
  EXPECT_EQ(names(same), names(inner));
}

TEST(Sequential, TakesLambdasAndGrowsByPushBack) {
  nn::Sequential model;
  model.push_back([](const Tensor& x) { return x * 2.0; });
  model.push_back(nn::Dense(1, 1, {.kernel_initializer = nn::ones()}));
  EXPECT_EQ(model(Tensor({{3.f}})).to<float>(), 6);
  EXPECT_EQ(names(model), (std::vector<std::string>{"1/kernel", "1/bias"}));
}

TEST(Sequential, MakesVariablesFromLeftToRight) {
  random::set_seed(1);
  const nn::Sequential together{nn::Dense(4, 3), nn::relu, nn::Dense(3, 2)};
  random::set_seed(1);
  const nn::Dense first(4, 3);
  const nn::Dense second(3, 2);
  EXPECT_EQ(together.variables()[0].read_value().to_vector<float>(),
            first.kernel().read_value().to_vector<float>());
  EXPECT_EQ(together.variables()[2].read_value().to_vector<float>(),
            second.kernel().read_value().to_vector<float>());
}

TEST(Sequential, LearnsByGradientDescent) {
  const nn::Sequential model{nn::Dense(1, 1)};
  const Tensor x({{0.f}, {1.f}, {2.f}});
  const Tensor y({{1.f}, {3.f}, {5.f}});
  for (int step = 0; step < 300; ++step) {
    GradientTape tape;
    const Tensor loss = nn::mean_squared_error(model(x), y);
    std::vector<Variable> variables = model.variables();
    const Gradients gradients = tape.gradient(loss, variables);
    for (size_t i = 0; i < variables.size(); ++i) {
      variables[i].assign_sub(gradients[i].dense() * 0.2);
    }
  }
  EXPECT_NEAR(model(Tensor({{10.f}})).to<float>(), 21, 0.05);
}

class Doubled : public nn::Module {
 public:
  Tensor operator()(const Tensor& x) const { return scale_ * dense_(x); }

  nn::Dense dense_ = register_module("dense", nn::Dense(2, 2));
  Variable scale_ = register_variable("scale", Variable(2.f));
};

TEST(Module, OfOnesOwnIsALayer) {
  const nn::Sequential model{Doubled(), nn::relu};
  EXPECT_EQ(names(model), (std::vector<std::string>{"0/dense/kernel", "0/dense/bias", "0/scale"}));
  EXPECT_EQ(model(ones({3, 2})).shape(), Shape({3, 2}));
}

TEST(Module, SwitchesTheModeOfAllItsParts) {
  const nn::Dropout dropout(0.9);
  nn::Sequential model{nn::Sequential{dropout}, nn::relu};
  model.eval();
  EXPECT_FALSE(dropout.is_training());
  EXPECT_EQ(min(model(ones({100}))).to<float>(), 1);
  model.train();
  EXPECT_TRUE(dropout.is_training());
}

TEST(Module, ListsASharedVariableOnce) {
  const nn::Dense shared(2, 2);
  const nn::Sequential model{shared, nn::relu, shared};
  EXPECT_EQ(names(model), (std::vector<std::string>{"0/kernel", "0/bias"}));
}

class Careless : public nn::Module {
 public:
  explicit Careless(const std::string& second) {
    register_variable("first", Variable(1.f));
    register_variable(second, Variable(1.f));
  }
  void take(const Careless& other) { register_module("other", other); }
};

TEST(Module, RefusesBadNamesAndCycles) {
  EXPECT_ERROR(Code::InvalidArgument, "a part named 'first' already exists", Careless("first"));
  EXPECT_ERROR(Code::InvalidArgument, "got 'a/b'", Careless("a/b"));
  EXPECT_ERROR(Code::InvalidArgument, "must not be empty", Careless(""));
  Careless module("second");
  EXPECT_ERROR(Code::InvalidArgument, "cannot be a part of itself", module.take(module));
}

TEST(Initializers, HaveTheVarianceTheyPromise) {
  random::set_seed(3);
  const Shape shape{200, 300};
  const auto deviation = [&](const nn::Initializer& initializer) {
    const Tensor values = initializer(shape, kFloat64);
    EXPECT_NEAR(mean(values).to<double>(), 0, 1e-3);
    return sqrt(mean(square(values))).to<double>();
  };
  EXPECT_NEAR(deviation(nn::glorot_uniform()), std::sqrt(2.0 / 500), 1e-3);
  EXPECT_NEAR(deviation(nn::glorot_normal()), std::sqrt(2.0 / 500), 1e-3);
  EXPECT_NEAR(deviation(nn::he_uniform()), std::sqrt(2.0 / 200), 1e-3);
  EXPECT_NEAR(deviation(nn::he_normal()), std::sqrt(2.0 / 200), 1e-3);
  EXPECT_NEAR(deviation(nn::normal(0, 0.5)), 0.5, 1e-2);
}

TEST(Initializers, OfAConvolutionCountItsWindow) {
  const Tensor kernel = nn::he_uniform()({8, 4, 3, 3}, kFloat64);
  EXPECT_LE(max(abs(kernel)).to<double>(), std::sqrt(6.0 / 36));
  EXPECT_GE(max(abs(kernel)).to<double>(), 0.8 * std::sqrt(6.0 / 36));
}

TEST(Initializers, GiveTheShapeAndDtypeAskedFor) {
  const Tensor values = nn::constant(2.5)({2, 3}, kFloat16);
  EXPECT_EQ(values.dtype(), kFloat16);
  EXPECT_EQ(values.shape(), Shape({2, 3}));
  EXPECT_EQ(max(values).to<float>(), 2.5f);
  EXPECT_LE(max(abs(nn::truncated_normal(0, 1)({1000}, kFloat32))).to<float>(), 2);
}

TEST(Initializers, NameWrongParameters) {
  EXPECT_ERROR(Code::InvalidArgument, "[uniform] low must be less than high", nn::uniform(1, 1));
  EXPECT_ERROR(Code::InvalidArgument, "[normal] stddev", nn::normal(0, -1));
  EXPECT_ERROR(Code::InvalidArgument, "[truncated_normal] stddev", nn::truncated_normal(0, -1));
}

}  // namespace
}  // namespace cohort
