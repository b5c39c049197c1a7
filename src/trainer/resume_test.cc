// Going on after a crash: as if nothing had happened.

#include <gtest/gtest.h>

#include <atomic>

#include "cohort/callbacks.h"
#include "cohort/metrics.h"
#include "cohort/multi_worker.h"
#include "cohort/ops.h"
#include "cohort/random.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

constexpr int kEpochs = 4;
constexpr int64_t kStepsPerEpoch = 6;

// 21 points in another order in each epoch; the last batch of 4 is short.
data::Dataset shuffled_line() {
  const Tensor x = reshape(cast(range(21), kFloat32), {21, 1}) / 21.f;
  return data::from_tensor_slices(x, 2.f * x + 1.f).shuffle(21, {.seed = 5}).batch(4);
}

// An exception at a step looks like a crash to the next fit().
struct Crash {};

std::shared_ptr<Callback> crash_at(int64_t step) {
  return std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_step_end = [step](Trainer& trainer, const Logs&) {
        if (trainer.progress().step == step) throw Crash();
      }});
}

// A model whose training depends on everything that a backup has to keep: momentum, the order of
// the data, random numbers, a rate that is halved again and again.
struct Rig {
  Rig() { random::set_seed(7); }
  nn::Sequential model{nn::Dense(1, 8, {.kernel_initializer = nn::ones()}), nn::Dropout(0.5),
                       nn::Dense(8, 1, {.kernel_initializer = nn::ones()})};
  optim::Sgd optimizer{{.learning_rate = 0.02, .momentum = 0.5}};
  Trainer trainer{model, nn::mean_squared_error, optimizer};

  std::vector<double> losses(FitOptions options, int64_t crash = -1) {
    options.epochs = kEpochs;
    options.progress = false;
    options.callbacks = {std::make_shared<LearningRateScheduler>(
                             [](int epoch, double rate) { return epoch == 1 ? rate : rate / 2; }),
                         crash_at(crash)};
    std::vector<double> all;
    for (const Logs& logs : trainer.fit(shuffled_line(), options).epochs) {
      all.push_back(logs.at("loss"));
    }
    return all;
  }
  std::string weights() const { return model.variables()[0].read_value().to_string(); }
};

class ResumedTraining : public testing::TestWithParam<int64_t> {};

TEST_P(ResumedTraining, GivesTheSameBits) {
  const TemporaryDirectory directory;
  Rig undisturbed;
  const std::vector<double> expected = undisturbed.losses({});
  const FitOptions with_backup = {.backup = directory.path(), .backup_steps = 4};
  EXPECT_THROW(Rig().losses(with_backup, GetParam()), Crash);
  Rig resumed;
  random::set_seed(99);  // the backup has the numbers that count
  EXPECT_EQ(resumed.losses(with_backup), expected);
  EXPECT_EQ(resumed.weights(), undisturbed.weights());
}

// Before the first backup, within an epoch, after its end, at its last step, in the last epoch.
INSTANTIATE_TEST_SUITE_P(Everywhere, ResumedTraining, testing::Values(1, 9, 13, 18, 23));

// Epochs that end within the data: 4 of 6 steps.
class ResumedWithinData : public testing::TestWithParam<int64_t> {};

TEST_P(ResumedWithinData, GivesTheSameBits) {
  const TemporaryDirectory directory;
  Rig undisturbed;
  const std::vector<double> expected = undisturbed.losses({.steps_per_epoch = 4});
  const FitOptions with_backup = {
      .steps_per_epoch = 4, .backup = directory.path(), .backup_steps = 3};
  EXPECT_THROW(Rig().losses(with_backup, GetParam()), Crash);
  Rig resumed;
  EXPECT_EQ(resumed.losses(with_backup), expected);
  EXPECT_EQ(resumed.weights(), undisturbed.weights());
  EXPECT_EQ(resumed.trainer.progress().step, 4 * kEpochs);
}

// In the first walk, at an epoch's end, in the second walk, after an epoch's end.
INSTANTIATE_TEST_SUITE_P(Everywhere, ResumedWithinData, testing::Values(2, 4, 7, 8, 9, 13));

TEST(Resuming, OfATrainingThatHasEndedIsAWarning) {
  const TemporaryDirectory directory;
  const FitOptions with_backup = {.backup = directory.path()};
  ::testing::internal::CaptureStderr();
  const std::vector<double> losses = Rig().losses(with_backup);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Rig().losses(with_backup), losses);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("[Trainer] fit() makes no step: the last backup in '" + directory.path() +
                     "' is of the end of the training, after 4 epochs and 24 steps"),
            std::string::npos)
      << log;
}

TEST(Resuming, GoesOnBehindTheLastBackup) {
  const TemporaryDirectory directory;
  const FitOptions options = {.epochs = kEpochs,
                              .callbacks = {crash_at(9)},
                              .backup = directory.path(),
                              .backup_steps = 2,
                              .progress = false};
  EXPECT_THROW(Rig().trainer.fit(shuffled_line(), options), Crash);
  std::vector<int64_t> steps;
  FitOptions again = options;
  again.callbacks = {std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_step_end = [&](Trainer& trainer, const Logs&) {
        steps.push_back(trainer.progress().step);
      }})};
  Rig resumed;
  EXPECT_EQ(resumed.trainer.fit(shuffled_line(), again).epochs.size(), size_t{kEpochs});
  EXPECT_EQ(steps.front(), 9);
  EXPECT_EQ(steps.back(), kEpochs * kStepsPerEpoch);
}

TEST(Resuming, TrainsNoFurtherWhenItWasFinished) {
  const TemporaryDirectory directory;
  Rig first;
  const std::vector<double> losses = first.losses({.backup = directory.path()});
  Rig again;
  EXPECT_EQ(again.losses({.backup = directory.path()}), losses);
  EXPECT_EQ(again.weights(), first.weights());
  EXPECT_EQ(again.trainer.progress().step, kEpochs * kStepsPerEpoch);
}

TEST(Resuming, TrainsNoFurtherWhenItWasStoppedEarly) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 3; ++i) {
    Rig rig;
    const auto stopping = std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "loss", .min_delta = 1e9, .patience = 1});
    const History history = rig.trainer.fit(shuffled_line(), {.epochs = kEpochs,
                                                              .callbacks = {stopping},
                                                              .backup = directory.path(),
                                                              .progress = false});
    EXPECT_EQ(history.epochs.size(), 2u) << i;
    EXPECT_EQ(rig.trainer.progress().step, 2 * kStepsPerEpoch) << i;
  }
}

// The weights of the best epoch are part of the backup.
TEST(Resuming, RestoresTheBestWeightsOfAFinishedTraining) {
  const TemporaryDirectory directory;
  std::vector<std::string> weights;
  for (int i = 0; i < 2; ++i) {
    Rig rig;
    const auto spoil =
        std::make_shared<LambdaCallback>(LambdaCallbacks{.on_epoch_begin = [&](Trainer& trainer) {
          if (trainer.progress().epoch != 2) return;
          for (Variable variable : trainer.variables()) variable.assign(variable + 100.f);
        }});
    const auto stopping = std::make_shared<EarlyStopping>(
        EarlyStoppingOptions{.monitor = "loss", .patience = 1, .restore_best_weights = true});
    rig.trainer.fit(shuffled_line(), {.epochs = kEpochs,
                                      .callbacks = {spoil, stopping},
                                      .backup = directory.path(),
                                      .progress = false});
    EXPECT_EQ(rig.trainer.progress().step, 2 * kStepsPerEpoch) << i;
    weights.push_back(rig.weights());
  }
  Rig once;
  once.trainer.fit(shuffled_line(), {.epochs = 1, .progress = false});
  EXPECT_EQ(weights, (std::vector{once.weights(), once.weights()}));
}

TEST(Resuming, RefusesTheBackupOfSomethingElse) {
  const TemporaryDirectory directory;
  Rig rig;
  Checkpoint({{"model", rig.model}}).save(directory.path() + "/backup");
  EXPECT_ERROR(Code::InvalidArgument, "another directory",
               rig.losses({.backup = directory.path()}));
}

// A model without numbers of inputs, whose variables the first call makes.
nn::Sequential lazy_model() {
  return nn::Sequential{nn::Dense(8, {.activation = nn::tanh}), nn::Dropout(0.5), nn::BatchNorm(),
                        nn::LayerNorm(), nn::Dense(1)};
}

struct LazyRig {
  explicit LazyRig(uint64_t seed, nn::Sequential own_model = lazy_model())
      : model(std::move(own_model)) {
    random::set_seed(seed);
  }
  nn::Sequential model;
  optim::Adam optimizer{{.learning_rate = 0.02}};
  Trainer trainer{model, nn::mean_squared_error, optimizer};

  // The losses of the epochs and the weights after them.
  std::string outcome(const std::string& directory, int64_t crash = -1) {
    const History history = trainer.fit(shuffled_line(), {.epochs = kEpochs,
                                                          .callbacks = {crash_at(crash)},
                                                          .backup = directory,
                                                          .backup_steps = 4,
                                                          .progress = false});
    std::string all;
    for (const Logs& logs : history.epochs) all += std::to_string(logs.at("loss")) + " ";
    for (const Variable& each : model.variables()) all += each.read_value().to_string() + " ";
    return all;
  }
};

class ResumedLazyModel : public testing::TestWithParam<int64_t> {};

TEST_P(ResumedLazyModel, GivesTheSameBits) {
  const TemporaryDirectory calm, directory;
  const std::string expected = LazyRig(7).outcome(calm.path());
  EXPECT_THROW(LazyRig(7).outcome(directory.path(), GetParam()), Crash);
  EXPECT_EQ(LazyRig(99).outcome(directory.path()), expected);
}

// After the backup of step 0; after later ones.
INSTANTIATE_TEST_SUITE_P(Everywhere, ResumedLazyModel, testing::Values(1, 9, 18));

TEST(Resuming, HasAModelOfFirstCallsInItsFirstBackup) {
  const TemporaryDirectory directory;
  EXPECT_THROW(LazyRig(7).outcome(directory.path(), 1), Crash);
  const CheckpointReader first(directory.path() + "/backup-0");
  EXPECT_TRUE(first.contains("model/0/kernel"));
  EXPECT_TRUE(first.contains("model/3/scale"));
}

// A model that another program made: its backup has variables that this one does not make.
TEST(Resuming, RefusesABackupWithMoreVariablesThanTheModel) {
  const TemporaryDirectory directory;
  LazyRig(7).outcome(directory.path());
  nn::Sequential smaller{nn::Dense(8)};
  optim::Adam optimizer;
  Trainer trainer(smaller, nn::mean_squared_error, optimizer);
  EXPECT_ERROR(
      Code::FailedPrecondition, "'model/2/moving_mean'",
      trainer.fit(shuffled_line(), {.epochs = 5, .backup = directory.path(), .progress = false}));
}

// Two workers, of which one throws its training away and comes back as another process would: with
// a strategy, variables and a trainer of its own. The other one is in fit() all the time.
void expect_that_workers_wait(const std::function<nn::Sequential()>& make_model) {
  std::vector<std::string> expected(2), results(2);
  // A worker that is lost says nothing to the other: an exception in a step which is not about the
  // other workers ends only its own fit().
  const auto train = [&](MultiWorkerMirroredStrategy& strategy, const std::string& directory,
                         int crash) {
    const auto scope = strategy.scope();
    random::set_seed(7);
    const nn::Sequential model = make_model();
    optim::Sgd optimizer({.learning_rate = 0.1, .momentum = 0.5});
    int losses = 0;
    const auto loss = [&](const Tensor& outputs, const Tensor& labels, nn::LossOptions options) {
      if (++losses == crash) throw Error(Code::Cancelled, "the machine is switched off");
      return nn::mean_squared_error(outputs, labels, options);
    };
    Trainer trainer(model, loss, optimizer);
    trainer.fit(shuffled_line(),
                {.epochs = kEpochs, .backup = directory, .backup_steps = 4, .progress = false});
    return model.variables().at(0).read_value().to_string();
  };
  const TemporaryDirectory calm, directory;
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    expected[static_cast<size_t>(strategy.worker_id())] = train(strategy, calm.path(), -1);
  });
  const ClusterSpec cluster = test::free_workers(2);
  const auto statuses = test::run_threads(2, [&](int id) {
    if (id == 1) {
      MultiWorkerMirroredStrategy strategy(test::worker_of(cluster, id));
      EXPECT_ERROR(Code::Cancelled, "switched off", train(strategy, directory.path(), 10));
    }
    MultiWorkerMirroredStrategy strategy(test::worker_of(cluster, id));
    results[static_cast<size_t>(id)] = train(strategy, directory.path(), -1);
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(results, expected);
}

TEST(Resuming, OtherWorkersWaitForALostOne) {
  expect_that_workers_wait(
      [] { return nn::Sequential{nn::Dense(1, 1, {.kernel_initializer = nn::zeros()})}; });
}

// The metric of a worker that is lost when the first epoch ends.
class LostAtTheEnd : public metrics::Mean {
 public:
  explicit LostAtTheEnd(bool is_lost) : is_lost_(is_lost) {}
  void update(const Tensor& labels, const Tensor& /*outputs*/) { Mean::update(labels); }
  Tensor result() const override {
    if (is_lost_) throw Error(Code::Cancelled, "the machine is switched off");
    return Mean::result();
  }

 private:
  const bool is_lost_;
};

// A callback stops the training at step 3, of which there is no backup.
TEST(Resuming, ForgetsAStopThatTheBackupDoesNotHave) {
  const TemporaryDirectory directory;
  const ClusterSpec cluster = test::free_workers(2);
  std::atomic<int> stops = 0;
  const auto train = [&](int id, bool is_lost) {
    MultiWorkerMirroredStrategy strategy(test::worker_of(cluster, id));
    const auto scope = strategy.scope();
    const nn::Sequential model{nn::Dense(1, 1)};
    optim::Sgd optimizer({.learning_rate = 0.1});
    const auto metric = std::make_shared<LostAtTheEnd>(is_lost);
    Trainer trainer(model, nn::mean_squared_error, optimizer, {.metrics = {metric}});
    const auto stop_once = std::make_shared<LambdaCallback>(
        LambdaCallbacks{.on_step_end = [&](Trainer& t, const Logs&) {
          if (id == 0 && t.progress().step == 3 && ++stops == 1) t.stop();
        }});
    trainer.fit(shuffled_line(), {.epochs = kEpochs,
                                  .callbacks = {stop_once},
                                  .backup = directory.path(),
                                  .backup_steps = 4,
                                  .progress = false});
    return trainer.progress().step;
  };
  const auto statuses = test::run_threads(2, [&](int id) {
    if (id == 1) EXPECT_ERROR(Code::Cancelled, "switched off", train(id, true));
    EXPECT_EQ(train(id, false), kEpochs * kStepsPerEpoch);
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(stops, 2);
}

TEST(Resuming, OtherWorkersWaitForALostOneWithAModelOfFirstCalls) {
  expect_that_workers_wait([] { return nn::Sequential{nn::Dense(4), nn::Dense(1)}; });
}

// All workers end and are started again. The last batch of an epoch leaves the second worker
// without an example, so its moving averages do not move in that step.
TEST(Resuming, WorkersGoOnWithAModelOfFirstCalls) {
  const TemporaryDirectory calm, directory;
  std::vector<std::string> expected(2), results(2);
  const auto train = [](MultiWorkerMirroredStrategy& strategy, const std::string& path,
                        int64_t crash, uint64_t seed) {
    const auto scope = strategy.scope();
    return LazyRig(seed, lazy_model()).outcome(path, crash);
  };
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    expected[static_cast<size_t>(strategy.worker_id())] = train(strategy, calm.path(), -1, 7);
  });
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    EXPECT_THROW(train(strategy, directory.path(), 9, 7), Crash);
  });
  test::on_workers(2, [&](MultiWorkerMirroredStrategy& strategy) {
    results[static_cast<size_t>(strategy.worker_id())] = train(strategy, directory.path(), -1, 99);
  });
  EXPECT_EQ(results, expected);
}

}  // namespace
}  // namespace cohort
