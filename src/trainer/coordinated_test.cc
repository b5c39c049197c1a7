// A Trainer whose steps are made by the workers of parameter servers.

#include <gtest/gtest.h>

#include <thread>

#include "cohort/callbacks.h"
#include "support/coordinated_cluster.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

data::Dataset line() {
  const Tensor x = reshape(cast(range(21), kFloat32), {21, 1}) / 21.f;
  return data::from_tensor_slices(x, 2.f * x + 1.f);
}

// A dataset of C++ code, which cannot be serialized.
data::Dataset batches() {
  return line().map([](Tensor x, Tensor y) { return std::tuple(x, y); }).batch(4);
}

struct LabelMean : metrics::Mean {
  LabelMean() : Mean("labels") {}
  void update(const Tensor& labels, const Tensor&) { Mean::update(labels); }
};

struct Rig {
  nn::Dense model{1, 1, {.kernel_initializer = nn::zeros()}};
  optim::Sgd optimizer{{.learning_rate = 0.1, .momentum = 0.5}};
  Trainer trainer{
      model, nn::mean_squared_error, optimizer, {.metrics = {std::make_shared<LabelMean>()}}};

  History fit(int epochs, FitOptions options = {}) {
    options.epochs = epochs;
    options.progress = false;
    return trainer.fit(batches(), options);
  }
  int64_t updates() const { return optimizer.iterations().read_value().to<int64_t>(); }
  float kernel() const { return model.kernel().read_value().to<float>(); }
};

TEST(CoordinatedTrainer, FitsEvaluatesAndPredicts) {
  test::CoordinatedCluster here(2, 2);
  const auto scope = here.strategy.scope();
  Rig rig;
  const History history = rig.fit(40, {.validation = batches()});
  ASSERT_EQ(history.epochs.size(), 40u);
  EXPECT_LT(history.epochs.back().at("val_loss"), 0.01);
  EXPECT_EQ(rig.updates(), 40 * 6) << "every batch once";
  EXPECT_EQ(rig.trainer.progress().step, 40 * 6);
  // Labels are 1, 1 + 2/21, ..., 1 + 40/21, whichever worker had them.
  for (const char* name : {"labels", "val_labels"}) {
    EXPECT_NEAR(history.epochs.back().at(name), 1 + 20.0 / 21, 1e-6) << name;
  }
  const Logs logs = rig.trainer.evaluate(batches());
  EXPECT_NEAR(logs.at("loss"), history.epochs.back().at("val_loss"), 1e-7);
  const Tensor outputs = rig.trainer.predict(batches());
  ASSERT_EQ(outputs.shape(), (Shape{21, 1}));
  for (int64_t i = 1; i < 21; ++i) {
    EXPECT_GT(outputs[i].to<float>(), outputs[i - 1].to<float>()) << "in the dataset's order";
  }
}

TEST(CoordinatedTrainer, GivesWhatOneProcessGives) {
  Rig alone;
  const double expected = alone.trainer.evaluate(batches()).at("loss");
  alone.trainer.fit(line().batch(21), {.epochs = 1, .progress = false});
  const float expected_kernel = alone.kernel();
  test::CoordinatedCluster here(1, 1, {.devices = {"CPU:0", "CPU:1"}});
  const auto scope = here.strategy.scope();
  Rig rig;
  EXPECT_NEAR(rig.trainer.evaluate(batches()).at("loss"), expected, 1e-6);
  EXPECT_NEAR(rig.trainer.evaluate(line().batch(21)).at("loss"), expected, 1e-6);
  EXPECT_EQ(rig.trainer.predict(batches()).shape(), (Shape{21, 1}));
  rig.trainer.fit(line().batch(21), {.epochs = 1, .progress = false});
  EXPECT_NEAR(rig.kernel(), expected_kernel, 1e-6) << "one step of two replicas";
}

TEST(CoordinatedTrainer, ReleasesTheStepsOfEarlierLearningRates) {
  test::CoordinatedCluster here(1, 1);
  const auto scope = here.strategy.scope();
  Rig rig;
  std::vector<uint64_t> plans;  // on the worker, by epoch
  const auto rate = [&](int epoch, double) {
    plans.push_back(here.cluster.server("worker", 0).status().plans);
    return 0.1 / (1 + epoch);
  };
  rig.fit(12, {.callbacks = {std::make_shared<LearningRateScheduler>(rate)}});
  ASSERT_EQ(plans.size(), 12u);
  EXPECT_LE(plans[11], plans[3] + 2);
}

TEST(CoordinatedTrainer, FollowsTheLearningRate) {
  test::CoordinatedCluster here(1, 2);
  const auto scope = here.strategy.scope();
  Rig rig;
  std::vector<float> kernels;
  rig.fit(4, {.callbacks = {std::make_shared<LearningRateScheduler>(
                                [](int epoch, double) { return epoch == 1 ? 0.1 : 0.0; }),
                            std::make_shared<LambdaCallback>(
                                LambdaCallbacks{.on_epoch_end = [&](Trainer&, const Logs&) {
                                  kernels.push_back(rig.kernel());
                                }})}});
  EXPECT_NE(kernels[0], 0);
  EXPECT_EQ(kernels[1], kernels[0]);
  EXPECT_EQ(kernels[3], kernels[0]);
}

TEST(CoordinatedTrainer, CallsBackInOrderAndStops) {
  test::CoordinatedCluster here(1, 2);
  const auto scope = here.strategy.scope();
  Rig rig;
  std::vector<int64_t> steps;
  rig.fit(50, {.callbacks = {std::make_shared<LambdaCallback>(
                   LambdaCallbacks{.on_step_end = [&](Trainer& trainer, const Logs& so_far) {
                     steps.push_back(trainer.progress().step);
                     EXPECT_TRUE(so_far.contains("loss"));
                     if (steps.size() == 9) trainer.stop();
                   }})}});
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i], static_cast<int64_t>(i) + 1);
  EXPECT_GE(steps.size(), 9u);
  EXPECT_LE(steps.size(), 12u) << "not beyond the epoch";
  EXPECT_EQ(rig.updates(), rig.trainer.progress().step);
}

TEST(CoordinatedTrainer, ALostWorkerChangesNothing) {
  test::CoordinatedCluster here(1, 2);
  const auto scope = here.strategy.scope();
  Rig rig;
  const auto lose_one = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_step_end = [&](Trainer& trainer, const Logs&) {
        if (trainer.progress().step == 7) here.cluster.stop("worker", 0);
      }});
  const History history = rig.fit(5, {.callbacks = {lose_one}});
  EXPECT_EQ(history.epochs.size(), 5u);
  EXPECT_EQ(rig.updates(), 30);
}

// The first time that `is_there`, a parameter server is lost with its variables.
auto lose_server(test::CoordinatedCluster& here, bool& lost,
                 const std::function<bool(const TrainingProgress&)>& is_there) {
  return [&here, &lost, is_there](Trainer& trainer, const Logs&) {
    if (!is_there(trainer.progress()) || std::exchange(lost, true)) return;
    here.cluster.stop("ps", 0);
    here.cluster.start("ps", 0);
  };
}

TEST(CoordinatedTrainer, GoesBackToTheBackupWhenAParameterServerIsLost) {
  const TemporaryDirectory directory;
  test::CoordinatedCluster here(2, 2);
  const auto scope = here.strategy.scope();
  Rig rig;
  bool lost = false;
  const auto lose_one = std::make_shared<LambdaCallback>(LambdaCallbacks{
      .on_step_end = lose_server(here, lost, [](const auto& at) { return at.step == 8; })});
  const History history =
      rig.fit(4, {.callbacks = {lose_one}, .backup = directory.path(), .backup_steps = 3});
  EXPECT_TRUE(lost);
  EXPECT_EQ(history.epochs.size(), 4u);
  EXPECT_EQ(rig.updates(), 24) << "none is lost, none is made twice";
  EXPECT_EQ(rig.trainer.progress().step, 24);
}

// A chief that ends and is started again with a cluster of its own.
TEST(CoordinatedTrainer, GoesOnWithAModelOfFirstCalls) {
  const TemporaryDirectory directory;
  struct Crash {};
  const auto train = [&](int64_t crash) {
    test::CoordinatedCluster here(1, 1);
    const auto scope = here.strategy.scope();
    nn::Sequential model{nn::Dense(4), nn::Dense(1)};
    optim::Sgd optimizer({.learning_rate = 0});
    Trainer trainer(model, nn::mean_squared_error, optimizer);
    std::string begins;
    const auto around = std::make_shared<LambdaCallback>(
        LambdaCallbacks{.on_fit_begin =
                            [&](Trainer&) {
                              for (const Variable& each : model.variables()) {
                                begins += each.read_value().to_string();
                              }
                            },
                        .on_step_end =
                            [&](Trainer& at, const Logs&) {
                              if (at.progress().step == crash) throw Crash();
                            }});
    const auto fit = [&] {
      trainer.fit(batches(), {.epochs = 2,
                              .callbacks = {around},
                              .backup = directory.path(),
                              .backup_steps = 3,
                              .progress = false});
    };
    if (crash < 0) {
      fit();
    } else {
      EXPECT_THROW(fit(), Crash);
    }
    return begins;
  };
  const std::string first = train(8);
  EXPECT_NE(first, "");
  EXPECT_EQ(train(-1), first) << "the rate is 0";
}

// Between the last step and a backup only the backup uses the variables.
TEST(CoordinatedTrainer, MakesNoBackupOfVariablesThatAreLost) {
  const TemporaryDirectory directory;
  test::CoordinatedCluster here(1, 1);
  const auto scope = here.strategy.scope();
  Rig rig;
  bool lost = false;
  const auto lose_one = std::make_shared<LambdaCallback>(LambdaCallbacks{
      .on_epoch_end = lose_server(here, lost, [](const auto& at) { return at.epoch == 2; })});
  const History history = rig.fit(3, {.callbacks = {lose_one}, .backup = directory.path()});
  EXPECT_TRUE(lost);
  EXPECT_EQ(history.epochs.size(), 3u);
  EXPECT_EQ(rig.updates(), 18);
}

TEST(CoordinatedTrainer, SaysWhatIsWrong) {
  test::CoordinatedCluster here(1, 1);
  const auto scope = here.strategy.scope();
  Rig rig;
  EXPECT_ERROR(Code::InvalidArgument, "(inputs, labels)",
               rig.trainer.fit(data::range(4).batch(2), {.progress = false}));
  EXPECT_ERROR(Code::InvalidArgument, "the dataset is empty",
               rig.trainer.evaluate(line().take(0).batch(2)));
  EXPECT_EQ(rig.fit(1).epochs.size(), 1u) << "and goes on";
}

TEST(CoordinatedTrainer, IsForTheChief) {
  test::LocalCluster cluster(1, 1);
  const SimpleClusterResolver worker(cluster.spec(), {.task_type = "worker", .task_id = 0});
  ParameterServerStrategy strategy(worker);
  const auto scope = strategy.scope();
  optim::Sgd optimizer;
  EXPECT_ERROR(Code::FailedPrecondition, "serve_task",
               Trainer(nn::Sequential{nn::relu}, nn::mean_squared_error, optimizer));
}

TEST(ServeTask, ServesUntilTheClusterIsShutDown) {
  const ClusterSpec cluster = test::free_cluster(1, 1);
  const auto serve = [&](const std::string& job) {
    return std::jthread([&cluster, job] {
      const SimpleClusterResolver own(cluster, {.task_type = job, .task_id = 0});
      EXPECT_TRUE(serve_task(own));
    });
  };
  const auto ps = serve("ps"), worker = serve("worker");
  const SimpleClusterResolver chief(cluster);
  EXPECT_FALSE(serve_task(chief));
  ParameterServerStrategy strategy(chief);
  ClusterCoordinator coordinator(strategy);
  EXPECT_EQ(coordinator.fetch(coordinator.schedule([] { return Tensor(3.f); })).to<float>(), 3);
  coordinator.shutdown_cluster();
}

// A model that keeps the graphs of the steps in which it is traced.
class TracedModel : public nn::Module {
 public:
  Tensor operator()(const Tensor& x) const {
    if (building_graph()) graphs_->push_back(get_default_graph());
    return hidden_(x);
  }
  const std::vector<Graph>& graphs() const { return *graphs_; }

 private:
  nn::Dense hidden_ = register_module("hidden", nn::Dense(1, 1, {.kernel_regularizer = nn::l2()}));
  std::shared_ptr<std::vector<Graph>> graphs_ = std::make_shared<std::vector<Graph>>();
};

TEST(CoordinatedTrainer, NodesOfItsStepsAreNotMadeInTheLibrary) {
  test::CoordinatedCluster here(1, 1);
  const auto scope = here.strategy.scope();
  const TracedModel model;
  optim::Sgd sgd;
  Trainer trainer(model, nn::mean_squared_error, sgd,
                  {.metrics = {std::make_shared<metrics::Mean>()}});
  const data::Dataset data = batches();
  trainer.fit(data, {.progress = false});
  trainer.evaluate(data);
  ASSERT_FALSE(model.graphs().empty());
  for (const Graph& graph : model.graphs()) {
    for (const NodeInfo& node : graph.nodes()) {
      if (node.site.line == 0) continue;
      EXPECT_TRUE(std::string_view(node.site.file).ends_with("coordinated_test.cc"))
          << node.op << " is made at " << node.site.file << ":" << node.site.line;
    }
  }
}

}  // namespace
}  // namespace cohort
