// Workers that train together go on together, and end together.

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <future>

#include "cohort/callbacks.h"
#include "cohort/ops.h"
#include "cohort/trainer.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

constexpr int kWorkers = 2;
constexpr int64_t kStepsPerEpoch = 6;

// A worker that waits in vain ends with DeadlineExceeded.
const MultiWorkerOptions kBounded{.communication = {.timeout = std::chrono::seconds(60)}};

data::Dataset batches() {
  const Tensor x = reshape(cast(range(24), kFloat32), {24, 1}) / 24.f;
  return data::from_tensor_slices(x, 2.f * x + 1.f).batch(4);
}

// What became of each worker's fit().
struct Outcome {
  int64_t steps = 0;
  size_t epochs = 0;
  std::string weights;
  bool operator==(const Outcome&) const = default;
};

// Epochs with a number of steps use endless data.
Outcome fit(MultiWorkerMirroredStrategy& strategy, FitOptions options) {
  const auto scope = strategy.scope();
  nn::Dense model(1, 1, {.kernel_initializer = nn::zeros()});
  optim::Sgd optimizer({.learning_rate = 0.1});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  options.progress = false;
  const History history =
      trainer.fit(options.steps_per_epoch ? batches().repeat() : batches(), options);
  return {.steps = trainer.progress().step,
          .epochs = history.epochs.size(),
          .weights = model.kernel().read_value().to_string()};
}

// Stops at that step, on that worker alone.
FitOptions stopping(const MultiWorkerMirroredStrategy& strategy, int worker, int64_t step) {
  const bool here = strategy.worker_id() == worker;
  return {.epochs = 3,
          .callbacks = {std::make_shared<LambdaCallback>(
              LambdaCallbacks{.on_step_end = [=](Trainer& trainer, const Logs&) {
                if (here && trainer.progress().step == step) trainer.stop();
              }})}};
}

void expect_same_stop(int worker, int64_t step, std::optional<int64_t> steps_per_epoch = {}) {
  std::vector<Outcome> found(kWorkers);
  test::on_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        FitOptions options = stopping(strategy, worker, step);
        options.steps_per_epoch = steps_per_epoch;
        found[static_cast<size_t>(strategy.worker_id())] = fit(strategy, options);
      },
      kBounded);
  EXPECT_EQ(found[0], found[1]) << worker << " at " << step;
  EXPECT_EQ(found[0].steps, step) << worker;
}

// Restores another checkpoint on each worker, then calls `use`.
std::vector<Status> use_different_models(
    const std::function<void(Trainer&, const data::Dataset&)>& use) {
  const TemporaryDirectory directory;
  for (int worker = 0; worker < kWorkers; ++worker) {
    nn::Dense model(1, 1);
    model.kernel().assign(Tensor({{static_cast<float>(worker)}}));
    Checkpoint({{"model", model}}).write(directory.path() + "/" + std::to_string(worker));
  }
  return test::run_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        nn::Dense model(1, 1);
        optim::Sgd optimizer({.learning_rate = 0.1});
        Checkpoint({{"model", model}})
            .read(directory.path() + "/" + std::to_string(strategy.worker_id()));
        Trainer trainer(model, nn::mean_squared_error, optimizer);
        use(trainer, batches());
      },
      kBounded);
}

TEST(WorkersOfATrainer, DoNotEvaluateOrPredictWithDifferentModels) {
  const auto evaluate = [](Trainer& trainer, const data::Dataset& data) { trainer.evaluate(data); };
  const auto predict = [](Trainer& trainer, const data::Dataset& data) { trainer.predict(data); };
  for (const auto& use : {std::function<void(Trainer&, const data::Dataset&)>(evaluate),
                          std::function<void(Trainer&, const data::Dataset&)>(predict)}) {
    for (const Status& status : use_different_models(use)) {
      EXPECT_EQ(status.root().code, Code::DataLoss) << status.to_string();
      EXPECT_NE(status.to_string().find("a worker restored other values"), std::string::npos)
          << status.to_string();
    }
  }
}

TEST(WorkersOfATrainer, StopAfterTheSameStepWhicheverOneStops) {
  for (const int worker : {0, 1}) {
    for (const int64_t step : {int64_t{1}, int64_t{9}, 2 * kStepsPerEpoch}) {
      expect_same_stop(worker, step);
    }
    expect_same_stop(worker, 8, kStepsPerEpoch);
  }
}

TEST(WorkersOfATrainer, StopAfterTheSameEpochWhenOneStopsThere) {
  std::vector<Outcome> found(kWorkers);
  test::on_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto stop = std::make_shared<LambdaCallback>(
            LambdaCallbacks{.on_epoch_end = [&](Trainer& trainer, const Logs&) {
              if (!strategy.is_chief()) trainer.stop();
            }});
        found[static_cast<size_t>(strategy.worker_id())] =
            fit(strategy, {.epochs = 3, .callbacks = {stop}});
      },
      kBounded);
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0].epochs, 1u);
}

// A metric whose sums are each worker's own has another value on each worker.
TEST(WorkersOfATrainer, DecideByTheSameFigures) {
  std::vector<std::vector<Logs>> histories(kWorkers);
  test::on_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        auto lone = std::make_shared<metrics::SparseCategoricalAccuracy>("accuracy");
        const auto scope = strategy.scope();
        nn::Dense model(1, 2, {.kernel_initializer = nn::zeros()});
        optim::Sgd optimizer({.learning_rate = 0});
        Trainer trainer(model, nn::softmax_cross_entropy, optimizer, {.metrics = {lone}});
        const Tensor x = zeros({8, 1});
        const Tensor labels = Tensor({0, 1, 0, 1, 0, 1, 0, 1});  // one worker has the zeros
        const auto stop = std::make_shared<EarlyStopping>(
            EarlyStoppingOptions{.monitor = "accuracy", .patience = 1});
        histories[static_cast<size_t>(strategy.worker_id())] =
            trainer
                .fit(data::from_tensor_slices(x, labels).batch(2),
                     {.epochs = 4, .callbacks = {stop}, .progress = false})
                .epochs;
      },
      kBounded);
  EXPECT_EQ(histories[0], histories[1]);
  EXPECT_EQ(histories[0].size(), 2u);
}

// The third epoch begins with bad weights, and only the chief's figures count.
TEST(WorkersOfATrainer, RestoreTheSameBestWeights) {
  std::vector<std::string> best(kWorkers), last(kWorkers);
  test::on_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto scope = strategy.scope();
        nn::Dense model(1, 1, {.kernel_initializer = nn::zeros()});
        optim::Sgd optimizer({.learning_rate = 0.1});
        Trainer trainer(model, nn::mean_squared_error, optimizer);
        const auto worker = static_cast<size_t>(strategy.worker_id());
        const auto spoil = std::make_shared<LambdaCallback>(
            LambdaCallbacks{.on_epoch_begin =
                                [&](Trainer& now) {
                                  if (now.progress().epoch == 3)
                                    model.kernel().assign(Tensor({{100.f}}));
                                },
                            .on_epoch_end =
                                [&](Trainer& now, const Logs&) {
                                  if (now.progress().epoch != 2) return;
                                  best[worker] = model.kernel().read_value().to_string();
                                }});
        const auto stop = std::make_shared<EarlyStopping>(
            EarlyStoppingOptions{.monitor = "loss", .patience = 1, .restore_best_weights = true});
        trainer.fit(batches(), {.epochs = 9, .callbacks = {spoil, stop}, .progress = false});
        EXPECT_EQ(trainer.progress().epoch, 3);
        last[worker] = model.kernel().read_value().to_string();
      },
      kBounded);
  EXPECT_EQ(last[0], last[1]);
  EXPECT_EQ(last, best);
}

// The worker whose callback failed does not leave. The other one does not wait for it as if it were
// lost, also where there is a backup to go back to.
void expect_failure_of_another(const std::string& backup) {
  std::promise<void> ended;
  const std::shared_future<void> other_ended = ended.get_future().share();
  const auto statuses = test::run_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto fail = std::make_shared<LambdaCallback>(
            LambdaCallbacks{.on_step_end = [&](Trainer& trainer, const Logs&) {
              if (strategy.is_chief() || trainer.progress().step != 3) return;
              throw Error(Code::DataLoss, "the disk is gone");
            }});
        const Status status = capture_status(
            [&] { fit(strategy, {.epochs = 2, .callbacks = {fail}, .backup = backup}); });
        if (strategy.is_chief()) ended.set_value();
        other_ended.wait();
        throw_if_error(status);
      },
      kBounded);
  EXPECT_EQ(statuses[1].code, Code::DataLoss) << statuses[1].to_string();
  EXPECT_EQ(statuses[0].code, Code::Cancelled) << statuses[0].to_string();
  EXPECT_NE(statuses[0].message.find("worker 1: the disk is gone"), std::string::npos)
      << statuses[0].to_string();
}

TEST(WorkersOfATrainer, HearOfTheCallbackThatFailedOnAnother) { expect_failure_of_another({}); }

TEST(WorkersOfATrainer, HearOfTheCallbackThatFailedOnAnotherWithABackup) {
  const TemporaryDirectory directory;
  expect_failure_of_another(directory.path());
}

TEST(WorkersOfATrainer, AreRefusedWhenTheyWouldTrainDifferently) {
  const auto statuses = test::run_workers(
      kWorkers,
      [](MultiWorkerMirroredStrategy& strategy) {
        fit(strategy, {.epochs = strategy.is_chief() ? 3 : 4});
      },
      kBounded);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
    EXPECT_NE(status.message.find("epochs 3"), std::string::npos) << status.to_string();
    EXPECT_NE(status.message.find("epochs 4"), std::string::npos) << status.to_string();
  }
}

// As after a restart during the second of two calls of fit().
TEST(WorkersOfATrainer, AreRefusedWhenTheirBackupsAreOfDifferentCalls) {
  const TemporaryDirectory directory;
  const auto statuses = test::run_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        fit(strategy, {.backup = directory.path() + (strategy.is_chief() ? "/second" : "/first")});
      },
      kBounded);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
    EXPECT_NE(status.message.find("/first' of 0 callbacks"), std::string::npos) << status.message;
    EXPECT_NE(status.message.find("/second' of 0 callbacks"), std::string::npos) << status.message;
  }
}

// What looks like the loss of a task is an error that one worker meets again and again. The chief,
// whose errors are all different, would go on.
TEST(WorkersOfATrainer, GiveUpTogether) {
  const TemporaryDirectory directory;
  int chiefs_errors = 0;
  const auto statuses = test::run_workers(
      kWorkers,
      [&](MultiWorkerMirroredStrategy& strategy) {
        const auto fail = std::make_shared<LambdaCallback>(
            LambdaCallbacks{.on_step_end = [&](Trainer& trainer, const Logs&) {
              if (trainer.progress().step != 3) return;
              throw Error(Code::Unavailable, strategy.is_chief()
                                                 ? "error " + std::to_string(++chiefs_errors)
                                                 : "the meter does not answer");
            }});
        fit(strategy, {.callbacks = {fail}, .backup = directory.path()});
      },
      kBounded);
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    EXPECT_NE(status.message.find("on worker 1"), std::string::npos) << status.to_string();
    EXPECT_NE(status.message.find("does not answer"), std::string::npos) << status.to_string();
  }
  EXPECT_EQ(chiefs_errors, 3);
}

TEST(WorkersOfATrainer, HearThatTheChiefCannotWrite) {
  const TemporaryDirectory directory;
  const std::string in_the_way = directory.path() + "/file";
  std::ofstream(in_the_way) << "no directory";
  for (const bool backup : {false, true}) {
    const auto statuses = test::run_workers(
        kWorkers,
        [&](MultiWorkerMirroredStrategy& strategy) {
          if (backup) {
            fit(strategy, {.backup = in_the_way + "/below"});
          } else {
            fit(strategy, {.callbacks = {std::make_shared<ModelCheckpoint>(ModelCheckpointOptions{
                               .directory = in_the_way + "/below", .monitor = "loss"})}});
          }
        },
        kBounded);
    for (const Status& status : statuses) {
      EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
      EXPECT_NE(status.message.find("on worker 0"), std::string::npos) << status.to_string();
      EXPECT_NE(status.message.find(in_the_way), std::string::npos) << status.to_string();
    }
  }
}

}  // namespace
}  // namespace cohort
