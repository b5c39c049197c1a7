#include "cohort/callbacks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cohort/readers.h"
#include "support/expect_error.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

// A trainer that learns nothing, for callbacks that get their figures from the test.
struct Rig {
  nn::Dense model{1, 1};
  optim::Sgd optimizer{{.learning_rate = 1}};
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  data::Dataset dataset = data::from_tensor_slices(Tensor({{1.f}, {2.f}}), Tensor({{1.f}, {2.f}}));

  void fit(int epochs, Callbacks callbacks) {
    trainer.fit(dataset.batch(1),
                {.epochs = epochs, .callbacks = std::move(callbacks), .progress = false});
  }
  double rate() const { return optimizer.learning_rate().to<double>(); }
};

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Callbacks, AreCalledInOrder) {
  Rig rig;
  std::string calls;
  const auto note = [&](const char* name) { return [&calls, name](auto&&...) { calls += name; }; };
  rig.fit(2, {std::make_shared<LambdaCallback>(LambdaCallbacks{.on_fit_begin = note("<"),
                                                               .on_epoch_begin = note("("),
                                                               .on_step_end = note("."),
                                                               .on_epoch_end = note(")"),
                                                               .on_fit_end = note(">")})});
  EXPECT_EQ(calls, "<(..)(..)>");
}

TEST(Callbacks, StopEndsBehindTheStep) {
  Rig rig;
  rig.fit(3, {std::make_shared<LambdaCallback>(
                 LambdaCallbacks{.on_step_end = [](Trainer& trainer, const Logs&) {
                   if (trainer.progress().step == 3) trainer.stop();
                 }})});
  EXPECT_EQ(rig.trainer.progress().step, 3);
}

TEST(EarlyStopping, WaitsForItsPatience) {
  Rig rig;
  EarlyStopping stopping({.monitor = "loss", .min_delta = 0.1, .patience = 2});
  int epochs = 0;
  bool stopped = false;
  rig.fit(6, {std::make_shared<LambdaCallback>(
                 LambdaCallbacks{.on_epoch_end =
                                     [&](Trainer& trainer, const Logs&) {
                                       const double losses[] = {1, 0.5, 0.45, 0.45, 0.4, 0.3};
                                       stopping.on_epoch_end(trainer, {{"loss", losses[epochs++]}});
                                     },
                                 .on_fit_end = [&](Trainer&) { stopped = true; }})});
  EXPECT_TRUE(stopped);
  EXPECT_EQ(epochs, 4) << "0.45 is not better than 0.5 by 0.1";
}

TEST(EarlyStopping, RemembersWhatItWaitedFor) {
  Rig rig;
  EarlyStopping before({.monitor = "accuracy", .patience = 2});
  before.on_epoch_end(rig.trainer, {{"accuracy", 0.9}});
  before.on_epoch_end(rig.trainer, {{"accuracy", 0.8}});
  EarlyStopping after({.monitor = "accuracy", .patience = 2});
  after.restore(before.save());
  EXPECT_EQ(after.save(), before.save());
  EXPECT_ERROR(Code::DataLoss, "EarlyStopping", after.restore("other"));
}

TEST(EarlyStopping, BeginsAnewWithAnotherFit) {
  Rig rig;
  const auto stopping = std::make_shared<EarlyStopping>(
      EarlyStoppingOptions{.monitor = "loss", .min_delta = 1e9, .patience = 2});
  for (int i = 0; i < 2; ++i) {
    rig.fit(6, {stopping});
    EXPECT_EQ(rig.trainer.progress().epoch, 3);
  }
}

TEST(EarlyStopping, WithoutPatienceEndsWithTheFirstEpochThatIsNoBetter) {
  Rig rig;
  EarlyStopping stopping({.monitor = "loss", .patience = 0});
  int epochs = 0;
  rig.fit(6, {std::make_shared<LambdaCallback>(
                 LambdaCallbacks{.on_epoch_end = [&](Trainer& trainer, const Logs&) {
                   const double losses[] = {3, 2, 2, 1, 0, 0};
                   stopping.on_epoch_end(trainer, {{"loss", losses[epochs++]}});
                 }})});
  EXPECT_EQ(epochs, 3);
}

TEST(EarlyStopping, RestoresTheBestWeightsOnRequest) {
  for (const bool wanted : {false, true}) {
    Rig rig;
    EarlyStopping stopping({.monitor = "loss", .restore_best_weights = wanted});
    const double losses[] = {3, 1, 2};
    for (int i = 0; i < 3; ++i) {
      rig.model.bias()->assign(Tensor({static_cast<float>(i)}));
      stopping.on_epoch_end(rig.trainer, {{"loss", losses[i]}});
    }
    EarlyStopping restarted({.monitor = "loss", .restore_best_weights = wanted});
    restarted.restore(stopping.save());
    restarted.on_fit_begin(rig.trainer);
    restarted.on_fit_end(rig.trainer);
    EXPECT_EQ(rig.model.bias()->read_value()[0].to<float>(), wanted ? 1 : 2);
  }
}

// The third epoch begins with bad weights.
TEST(EarlyStopping, RestoresTheBestWeightsOfAllReplicas) {
  MirroredStrategy strategy({"CPU:0", "CPU:1"});
  const auto scope = strategy.scope();
  Rig rig;
  rig.optimizer.set_learning_rate(0.01);
  std::vector<std::string> kernels;
  const auto spoil = std::make_shared<LambdaCallback>(
      LambdaCallbacks{.on_epoch_begin =
                          [&](Trainer& trainer) {
                            if (trainer.progress().epoch == 3)
                              rig.model.kernel().assign(Tensor({{100.f}}));
                          },
                      .on_epoch_end =
                          [&](Trainer&, const Logs&) {
                            kernels.push_back(rig.model.kernel().read_value().to_string());
                          }});
  rig.fit(9, {spoil, std::make_shared<EarlyStopping>(EarlyStoppingOptions{
                         .monitor = "loss", .patience = 1, .restore_best_weights = true})});
  ASSERT_EQ(kernels.size(), 3u);
  EXPECT_NE(kernels[1], kernels[2]);
  const PerReplica<Tensor> copies = strategy.run([&] { return rig.model.kernel().read_value(); });
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(copies[i].to_string(), kernels[1]) << i;
}

TEST(Callbacks, MayStopBeforeAnEpochsFirstStep) {
  Rig rig;
  std::string calls;
  rig.fit(3, {std::make_shared<LambdaCallback>(
                 LambdaCallbacks{.on_epoch_begin =
                                     [](Trainer& trainer) {
                                       if (trainer.progress().epoch == 2) trainer.stop();
                                     },
                                 .on_epoch_end = [&](Trainer&, const Logs&) { calls += ")"; },
                                 .on_fit_end = [&](Trainer&) { calls += ">"; }})});
  EXPECT_EQ(calls, ")>");
  EXPECT_EQ(rig.trainer.progress().epoch, 1);
  EXPECT_ERROR(Code::InvalidArgument, "callback 0 is null", rig.fit(1, {nullptr}));
}

TEST(Monitor, NamesTheFiguresThereAre) {
  Rig rig;
  EXPECT_ERROR(Code::InvalidArgument, "the figures are loss",
               rig.fit(1, {std::make_shared<EarlyStopping>()}));
}

TEST(LearningRateScheduler, SetsTheRateOfEachEpoch) {
  Rig rig;
  std::vector<double> rates;
  rig.fit(3, {std::make_shared<LearningRateScheduler>(
                  [](int epoch, double rate) { return epoch == 1 ? rate : rate / 2; }),
              std::make_shared<LambdaCallback>(LambdaCallbacks{
                  .on_epoch_end = [&](Trainer&, const Logs&) { rates.push_back(rig.rate()); }})});
  EXPECT_EQ(rates, (std::vector<double>{1, 0.5, 0.25}));
}

TEST(ReduceOnPlateau, LowersTheRateAndKeepsItOverARestart) {
  Rig rig;
  const ReduceOnPlateauOptions options = {
      .monitor = "loss", .factor = 0.5, .patience = 1, .min_rate = 0.3};
  ReduceOnPlateau plateau(options);
  plateau.on_epoch_end(rig.trainer, {{"loss", 1}});
  EXPECT_EQ(rig.rate(), 1);
  plateau.on_epoch_end(rig.trainer, {{"loss", 1}});
  EXPECT_EQ(rig.rate(), 0.5);
  plateau.on_epoch_end(rig.trainer, {{"loss", 1}});
  EXPECT_NEAR(rig.rate(), 0.3, 1e-7);
  Rig restarted;
  ReduceOnPlateau again(options);
  again.restore(plateau.save());
  again.on_fit_begin(restarted.trainer);
  EXPECT_NEAR(restarted.rate(), 0.3, 1e-7);
}

TEST(CsvLogger, WritesALineForEachEpochAndGoesOn) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log.csv";
  Rig rig;
  rig.fit(2, {std::make_shared<CsvLogger>(path)});
  const std::string text = text_of(path);
  EXPECT_TRUE(text.starts_with("epoch,loss\n1,")) << text;
  rig.fit(1, {std::make_shared<CsvLogger>(path)});
  EXPECT_EQ(std::ranges::count(text_of(path), '\n'), 4);
  EXPECT_ERROR(Code::PermissionDenied, "/no/such",
               rig.fit(1, {std::make_shared<CsvLogger>("/no/such/directory/log.csv")}));
}

TEST(CsvLogger, RefusesAFileWithOtherColumns) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log.csv";
  std::ofstream(path) << "epoch,accuracy\n1,0.5\n";
  Rig rig;
  EXPECT_ERROR(Code::InvalidArgument, "'epoch,accuracy', and this training has 'epoch,loss'",
               rig.fit(1, {std::make_shared<CsvLogger>(path)}));
}

// The second line was written after the backup, and the third line is torn.
TEST(CsvLogger, WritesTheLineOfARepeatedEpochOnce) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/log.csv";
  Rig rig;
  for (const char* before :
       {"epoch,loss\n1,0.5\n2,0.25\n", "epoch,loss\n1,0.5\n2,0.25\n3", "epoch,loss\n1,0.5\n2,"}) {
    std::ofstream(path) << before;
    CsvLogger logger(path);
    logger.restore(logger.save());
    int epoch = 0;
    rig.fit(3, {std::make_shared<LambdaCallback>(
                   LambdaCallbacks{.on_epoch_end = [&](Trainer& trainer, const Logs&) {
                     if (++epoch > 1) logger.on_epoch_end(trainer, {{"loss", 7}});
                   }})});
    EXPECT_EQ(text_of(path), "epoch,loss\n1,0.5\n2,7\n3,7\n") << before;
  }
}

TEST(LearningRateScheduler, TakesTheRateThatAnotherFitBeginsWith) {
  Rig rig;
  const auto halve = std::make_shared<LearningRateScheduler>(
      [](int epoch, double rate) { return epoch == 1 ? rate : rate / 2; });
  rig.fit(2, {halve});
  rig.optimizer.set_learning_rate(4);
  rig.fit(2, {halve});
  EXPECT_EQ(rig.rate(), 2);
}

TEST(ModelCheckpoint, KeepsTheBestAndTheLast) {
  const TemporaryDirectory directory;
  Rig rig;
  ModelCheckpoint keeper({.directory = directory.path(), .monitor = "loss"});
  const auto set_bias = [&](float value) { rig.model.bias()->assign(Tensor({value})); };
  const double losses[] = {3, 1, 2};
  for (int i = 0; i < 3; ++i) {
    set_bias(static_cast<float>(i));
    keeper.on_epoch_end(rig.trainer, {{"loss", losses[i]}});
  }
  rig.trainer.checkpoint().read(directory.path() + "/best").expect_partial();
  EXPECT_EQ(rig.model.bias()->read_value()[0].to<float>(), 1);
  rig.trainer.checkpoint().read(directory.path() + "/last").expect_partial();
  EXPECT_EQ(rig.model.bias()->read_value()[0].to<float>(), 2);
  EXPECT_ERROR(Code::InvalidArgument, "directory", ModelCheckpoint({}));
}

TEST(TensorBoardCallback, WritesFiguresOfStepsAndEpochs) {
  const TemporaryDirectory directory;
  Rig rig;
  rig.fit(2, {std::make_shared<TensorBoard>(
                 TensorBoardOptions{.directory = directory.path(), .every_steps = 2})});
  size_t records = 0;
  std::string all;
  for (const data::Element& record : data::tfrecord(data::files({directory.path() + "/events*"}))) {
    all += record.tensor().to<std::string>();
    ++records;
  }
  // The first one; loss, examples/s and rate of steps 2 and 4; loss and rate of two epochs.
  EXPECT_EQ(records, 1u + 6 + 4);
  for (const char* tag : {"step/loss", "step/examples_per_second", "step/learning_rate",
                          "epoch/loss", "epoch/learning_rate"}) {
    EXPECT_NE(all.find(tag), std::string::npos) << tag;
  }
}

TEST(TensorBoardCallback, HasAnIntervalThatIsEmptyOrPositive) {
  EXPECT_ERROR(Code::InvalidArgument, "every_steps must be at least 1, got 0; leave it empty",
               TensorBoard({.directory = "d", .every_steps = 0}));
  EXPECT_NO_THROW(TensorBoard({.directory = "d", .every_steps = std::nullopt}));
}

// The calls come after steps 4, 8 and 10, and the figures are due at steps 3, 6 and 9.
TEST(TensorBoardCallback, WritesFiguresThatAreDueBetweenTwoCalls) {
  const TemporaryDirectory directory;
  Rig rig;
  rig.trainer.fit(rig.dataset.batch(1).repeat(5),
                  {.steps_per_execution = 4,
                   .callbacks = {std::make_shared<TensorBoard>(
                       TensorBoardOptions{.directory = directory.path(), .every_steps = 3})},
                   .progress = false});
  size_t records = 0;
  for (const data::Element& record : data::tfrecord(data::files({directory.path() + "/events*"}))) {
    EXPECT_TRUE(record.is_tensor());
    ++records;
  }
  // The first one; loss, examples/s and rate of three calls; loss and rate of the epoch.
  EXPECT_EQ(records, 1u + 9 + 2);
}

TEST(TensorBoardCallback, DropsTheFiguresOfStepsThatAResumedTrainingMakesAgain) {
  // An event of step 1 with a SessionLog whose status is 1.
  const std::string purge("\x10\x01\x3a\x02\x08\x01", 6);
  for (const bool resumed : {false, true}) {
    const TemporaryDirectory directory;
    const auto board =
        std::make_shared<TensorBoard>(TensorBoardOptions{.directory = directory.path()});
    if (resumed) board->restore(board->save());
    Rig rig;
    rig.fit(1, {board});
    std::string all;
    for (const data::Element& record :
         data::tfrecord(data::files({directory.path() + "/events*"}))) {
      all += record.tensor().to<std::string>();
    }
    EXPECT_EQ(all.find(purge) != std::string::npos, resumed);
  }
}

}  // namespace
}  // namespace cohort
