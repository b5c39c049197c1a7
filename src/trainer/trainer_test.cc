#include "cohort/trainer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cohort/callbacks.h"
#include "cohort/ops.h"
#include "support/expect_error.h"
#include "support/local_workers.h"

namespace cohort {
namespace {

// y = 2 x0 - 3 x1 + 1 for 21 points: the last batch of 4 is short.
data::Dataset line() {
  std::vector<float> x, y;
  for (int i = 0; i < 21; ++i) {
    const float a = static_cast<float>(i % 5) / 5;
    const float b = static_cast<float>(i % 3) / 3;
    x.insert(x.end(), {a, b});
    y.push_back(2 * a - 3 * b + 1);
  }
  return data::from_tensor_slices(Tensor::from(std::span<const float>(x), {21, 2}),
                                  Tensor::from(std::span<const float>(y), {21, 1}));
}

data::Dataset batches() { return line().batch(4); }

// A model that begins with zeros, and what trains it.
struct Rig {
  nn::Dense model{2, 1, {.kernel_initializer = nn::zeros()}};
  optim::Sgd optimizer{{.learning_rate = 0.2, .momentum = 0.5}};
  Trainer trainer{model, nn::mean_squared_error, optimizer};

  History fit(int epochs, FitOptions options = {}) {
    options.epochs = epochs;
    options.progress = false;
    return trainer.fit(batches(), options);
  }
};

TEST(Trainer, FitsALine) {
  Rig rig;
  const History history = rig.fit(60);
  ASSERT_EQ(history.epochs.size(), 60u);
  EXPECT_LT(history.epochs.back().at("loss"), 1e-3);
  EXPECT_LT(history.epochs.back().at("loss"), history.epochs.front().at("loss"));
  EXPECT_NEAR(rig.trainer.predict(batches())[3].to<float>(), 2 * 0.6f - 0 + 1, 0.05);
}

TEST(Trainer, GivesTheSameUnderEveryStrategy) {
  Rig alone;
  const History expected = alone.fit(3);
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  OneDeviceStrategy one("CPU:0");
  CentralStorageStrategy central({.compute_devices = {"CPU:0", "CPU:1", "CPU:2"}});
  for (Strategy* strategy : std::initializer_list<Strategy*>{&mirrored, &one, &central}) {
    const auto scope = strategy->scope();
    Rig rig;
    const History history = rig.fit(3);
    for (size_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_NEAR(history.epochs[epoch].at("loss"), expected.epochs[epoch].at("loss"), 1e-5)
          << *strategy << " epoch " << epoch;
    }
  }
}

// The penalties count once, however many replicas there are, and the loss contains them.
TEST(Trainer, AddsTheLossesOfRegularizers) {
  const auto train = [] {
    nn::Dense model(2, 1, {.kernel_initializer = nn::ones(), .kernel_regularizer = nn::l2(0.1)});
    optim::Sgd optimizer({.learning_rate = 0.2});
    Trainer trainer(model, nn::mean_squared_error, optimizer);
    const double before = trainer.evaluate(line().batch(8)).at("loss");
    const History history = trainer.fit(batches(), {.epochs = 2, .progress = false});
    return std::vector{before, history.epochs[1].at("loss"),
                       model.kernel().read_value()[0][0].to<double>()};
  };
  const std::vector<double> expected = train();
  nn::Dense plain(2, 1, {.kernel_initializer = nn::ones()});
  optim::Sgd optimizer;
  EXPECT_NEAR(
      expected[0],
      Trainer(plain, nn::mean_squared_error, optimizer).evaluate(batches()).at("loss") + 0.2, 1e-6);
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  const auto scope = mirrored.scope();
  const std::vector<double> found = train();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST(Trainer, MakesLayersThatLearnTheirSizesInTheFirstStep) {
  MirroredStrategy mirrored({"CPU:0", "CPU:1"});
  const auto scope = mirrored.scope();
  nn::Sequential model{nn::Dense(8, {.activation = nn::tanh}), nn::Dense(1)};
  optim::Adam optimizer({.learning_rate = 0.05});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  const History history = trainer.fit(batches(), {.epochs = 30, .progress = false});
  EXPECT_LT(history.epochs.back().at("loss"), 0.1 * history.epochs.front().at("loss"));
  ASSERT_EQ(model.variables().size(), 4u);
  for (const Variable& variable : model.variables()) {
    const std::vector<Variable> copies = mirrored.local_results(variable);
    ASSERT_EQ(copies.size(), 2u);
    EXPECT_EQ(copies[0].read_value().to_vector<float>(), copies[1].read_value().to_vector<float>());
  }
}

// What the model has seen, by the first number of each batch.
std::vector<int> seen_batches(const data::Dataset& dataset, const FitOptions& options) {
  nn::Dense model(1, 1);
  optim::Sgd optimizer({.learning_rate = 0});
  std::vector<int> seen;
  Trainer trainer(model, nn::mean_squared_error, optimizer, {.input = [&](const Tensor& x) {
                    seen.push_back(static_cast<int>(reshape(x, {-1})[0].to<float>()));
                    return x;
                  }});
  trainer.fit(dataset, options);
  return seen;
}

TEST(Trainer, StepsPerEpochGoOnInTheData) {
  const Tensor x = reshape(cast(range(5), kFloat32), {5, 1});
  const data::Dataset five = data::from_tensor_slices(x, x).batch(1);
  std::vector<int64_t> ends;
  const auto note = std::make_shared<LambdaCallback>(LambdaCallbacks{
      .on_epoch_end = [&](Trainer& t, const Logs&) { ends.push_back(t.progress().step); }});
  const FitOptions options = {
      .epochs = 3, .steps_per_epoch = 3, .callbacks = {note}, .progress = false};
  const std::vector<int> expected = {0, 1, 2, 3, 4, 0, 1, 2, 3};
  EXPECT_EQ(seen_batches(five, options), expected);
  EXPECT_EQ(seen_batches(five.repeat(), options), expected);
  EXPECT_EQ(ends, (std::vector<int64_t>{3, 6, 9, 3, 6, 9}));
  EXPECT_ERROR(Code::InvalidArgument, "the dataset is empty", seen_batches(five.take(0), options));
}

TEST(Trainer, StepsPerExecutionCallsBackOnceForSeveralSteps) {
  const auto train = [](int64_t steps_per_execution, std::vector<int64_t>& ends) {
    Rig rig;
    const auto note = std::make_shared<LambdaCallback>(LambdaCallbacks{
        .on_step_end = [&](Trainer& t, const Logs&) { ends.push_back(t.progress().step); }});
    return rig.fit(2, {.steps_per_execution = steps_per_execution, .callbacks = {note}})
        .epochs[1]
        .at("loss");
  };
  std::vector<int64_t> each;
  std::vector<int64_t> fourth;
  EXPECT_EQ(train(1, each), train(4, fourth));
  EXPECT_EQ(each.size(), 12u);  // 21 examples in batches of 4, twice
  EXPECT_EQ(fourth, (std::vector<int64_t>{4, 6, 10, 12}));
  EXPECT_ERROR(Code::InvalidArgument, "steps_per_execution", train(0, each));
}

TEST(Trainer, StopsAfterTheExecutionThatAsksForIt) {
  Rig rig;
  const auto stop = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_step_end = [](Trainer& t, const Logs&) { t.stop(); }});
  rig.fit(2, {.steps_per_execution = 4, .callbacks = {stop}});
  EXPECT_EQ(rig.trainer.progress().step, 4);
}

// The parts of a short batch differ from worker to worker, also in data without an end.
TEST(Trainer, WeighsExamplesAlikeInEndlessDataOfSeveralWorkers) {
  const auto train = [] {
    Rig rig;
    rig.trainer.fit(batches().repeat(), {.epochs = 2, .steps_per_epoch = 6, .progress = false});
    return rig.model.kernel().read_value().to_vector<float>();
  };
  const std::vector<float> expected = train();
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const std::vector<float> found = train();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  });
}

TEST(Trainer, EvaluationCountsEveryExampleOnce) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  Rig rig;
  double squares = 0;
  for (const auto& [x, y] : line()) squares += square(y).to<double>();
  // 21 examples in batches of 8: 8, 8, 5, and 5 over two replicas is 3 and 2.
  EXPECT_NEAR(rig.trainer.evaluate(line().batch(8)).at("loss"), squares / 21, 1e-6);
}

TEST(Trainer, MetricsCoverTheEpoch) {
  nn::Dense model(2, 2);
  optim::Sgd optimizer;
  auto accuracy = std::make_shared<metrics::SparseCategoricalAccuracy>("accuracy");
  Trainer trainer(model, nn::softmax_cross_entropy, optimizer, {.metrics = {accuracy}});
  const data::Dataset dataset =
      data::from_tensor_slices(Tensor({{5.f, 0.f}, {0.f, 5.f}, {5.f, 0.f}}), Tensor({0, 1, 1}))
          .batch(2);
  const History history =
      trainer.fit(dataset, {.epochs = 2, .validation = dataset, .progress = false});
  for (const Logs& logs : history.epochs) {
    for (const char* name : {"loss", "accuracy", "val_loss", "val_accuracy"}) {
      EXPECT_TRUE(logs.contains(name)) << name;
    }
    const double thirds = logs.at("val_accuracy") * 3;
    EXPECT_NEAR(thirds, std::round(thirds), 1e-9);
  }
}

TEST(Trainer, PredictsInTheDatasetsOrderWithOrWithoutLabels) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  nn::Dense model(1, 1, {.kernel_initializer = nn::ones()});
  optim::Sgd optimizer;
  Trainer trainer(model, nn::mean_squared_error, optimizer,
                  {.input = [](const Tensor& x) { return x * 10.f; }});
  const Tensor x({{1.f}, {2.f}, {3.f}, {4.f}, {5.f}});
  const std::string expected = Tensor({{10.f}, {20.f}, {30.f}, {40.f}, {50.f}}).to_string();
  EXPECT_EQ(trainer.predict(data::from_tensor_slices(x).batch(2)).to_string(), expected);
  EXPECT_EQ(trainer.predict(data::from_tensor_slices(x, x).batch(3)).to_string(), expected);
}

TEST(Trainer, LayersAreInEvaluationModeOnlyWhileEvaluating) {
  nn::Sequential model{nn::Dense(2, 1), nn::Dropout(0.5)};
  optim::Sgd optimizer;
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  const Tensor first = trainer.predict(batches());
  EXPECT_EQ(first.to_string(), trainer.predict(batches()).to_string());
  EXPECT_TRUE(model.is_training());
}

TEST(Trainer, SaysWhatIsWrong) {
  Rig rig;
  const FitOptions quiet = {.progress = false};
  EXPECT_ERROR(Code::InvalidArgument, "(inputs, labels)",
               rig.trainer.fit(data::range(4).batch(2), quiet));
  EXPECT_ERROR(Code::InvalidArgument, "the dataset is empty",
               rig.trainer.fit(line().take(0).batch(2), quiet));
  EXPECT_ERROR(Code::InvalidArgument, "the dataset is empty",
               rig.trainer.evaluate(line().take(0).batch(2)));
  EXPECT_ERROR(Code::InvalidArgument, "the dataset is empty",
               rig.trainer.predict(line().take(0).batch(2)));
  EXPECT_ERROR(Code::InvalidArgument, "epochs", rig.fit(0));
  EXPECT_ERROR(Code::InvalidArgument, "steps_per_epoch must be at least 1, got 0; leave it empty",
               rig.fit(1, {.steps_per_epoch = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "backup_steps must be at least 1, got -1; leave it empty",
               rig.fit(1, {.backup_steps = -1}));
}

}  // namespace
}  // namespace cohort
