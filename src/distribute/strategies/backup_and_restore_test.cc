// Training that stops in the middle and goes on. With several processes: tests/cluster.

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "cohort/cohort.h"
#include "distribute/strategies/training_backup.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/no_descriptors.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

TEST(Backups, RefuseWhatMakesNoSense) {
  OneDeviceStrategy strategy("CPU:0");
  const auto make = [&](const BackupOptions& options) {
    const BackupAndRestore backup(strategy, {}, options);
  };
  EXPECT_ERROR(Code::InvalidArgument, "directory", make({}));
  EXPECT_ERROR(Code::InvalidArgument, "every_steps", make({.directory = "x", .every_steps = 0}));
}

// What run() says of a directory in which it cannot write.
Status outcome_of_backups_in(const std::string& directory) {
  OneDeviceStrategy strategy("CPU:0");
  Variable v(zeros({1 << 16}));
  return error_of([&] {
    BackupAndRestore backup(strategy, {{"v", v}}, {.directory = directory});
    backup.run(strategy.distribute_dataset(data::range(2).batch(1)),
               [](const DistributedElement&) {});
  });
}

// Unavailable would say that a worker is lost, for which all workers wait.
TEST(Backups, SayWhichFileCannotBeWrittenAndWhy) {
  const TemporaryDirectory directory;
  const auto expect = [](const Status& status, Code code, const std::string& path,
                         std::string_view cause) {
    EXPECT_EQ(status.code, code) << status;
    EXPECT_NE(status.message.find(path), std::string::npos) << status;
    EXPECT_NE(status.message.find(cause), std::string::npos) << status;
  };
  const std::string file = directory.write("file", "x");
  expect(outcome_of_backups_in(file), Code::FailedPrecondition, file, "Not a directory");
  const std::string lock = directory.path() + "/locked/lock";
  std::filesystem::create_directories(lock);
  expect(outcome_of_backups_in(directory.path() + "/locked"), Code::FailedPrecondition, lock,
         "Is a directory");
  {
    const FileSizeLimit full(1 << 16);
    const std::string run = directory.path() + "/run";
    expect(outcome_of_backups_in(run), Code::ResourceExhausted, run + "/backup", "File too large");
  }
  const NoDescriptors none;
  expect(error_of([&] { internal::BackupLock(directory.path()); }), Code::ResourceExhausted,
         directory.path() + "/lock", "Too many open files");
}

TEST(Backups, KeepTheTypeOfTheProgramsExceptions) {
  struct OwnException {};
  const TemporaryDirectory directory;
  OneDeviceStrategy strategy("CPU:0");
  Variable v(1.f);
  BackupAndRestore backup(strategy, {{"v", v}}, {.directory = directory.path()});
  EXPECT_THROW(backup.run(strategy.distribute_dataset(data::range(2).batch(1)),
                          [](const DistributedElement&) { throw OwnException(); }),
               OwnException);
}

// Such a model has no variables before its first call, so the backup could not be restored.
TEST(Backups, AreNotRestoredIntoAModelThatHasNoVariablesYet) {
  const TemporaryDirectory directory;
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const auto run = [&](bool call_first) {
    const nn::Sequential model{nn::Dense(2), nn::Dense(1)};
    if (call_first) model(zeros({1, 3}));
    BackupAndRestore backup(strategy, {{"model", model}}, {.directory = directory.path()});
    backup.run(strategy.distribute_dataset(data::range(2).batch(1)),
               [&](const DistributedElement&) {
                 model(zeros({1, 3}));
               });
  };
  run(false);
  EXPECT_ERROR(Code::FailedPrecondition, "'model/0/kernel'", run(false));
  EXPECT_ERROR(Code::FailedPrecondition, "call the model on one batch first", run(false));
  run(true);
}

// A program that stops in the middle and is started again, in one process.
TEST(Backups, GoOnWhereTheLastOneIs) {
  const TemporaryDirectory directory;
  std::vector<int64_t> seen;
  const auto run_until = [&](int64_t stop) {
    MirroredStrategy strategy({"CPU:0", "CPU:1"});
    const auto scope = strategy.scope();
    Variable total(int64_t{0}, {.aggregation = VariableAggregation::Sum});
    optim::Adam optimizer;
    Variable w(1.f);
    BackupAndRestore backup(strategy, {{"total", total}, {"w", w}, {"optimizer", optimizer}},
                            {.directory = directory.path(), .every_steps = 3});
    const auto data = strategy.distribute_dataset(data::range(20).batch(2));
    backup.run(data, [&](const DistributedElement& element) {
      seen.push_back(element[0].tensor().to_vector<int64_t>()[0]);
      strategy.run(
          [&](const Tensor& x) {
            total.assign_add(sum(x));
            optimizer.apply_gradients({Tensor(1.f)}, {w});
          },
          element);
      if (seen.back() == stop) throw Error(Code::Internal, "the machine is switched off");
    });
    EXPECT_EQ(backup.report().steps, 10);
    EXPECT_EQ(total.read_value().to<int64_t>(), 190);
    EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 10);
    return w.read_value().to<float>();
  };
  EXPECT_ERROR(Code::Internal, "switched off", run_until(2));  // before the first backup
  EXPECT_ERROR(Code::Internal, "switched off", run_until(8));
  const float result = run_until(-1);
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 2, 0, 2, 4, 6, 8, 6, 8, 10, 12, 14, 16, 18}));
  EXPECT_LT(result, 1);
}

// --- Several calls of run(), as for epochs

// A program that trains for some epochs of four steps. It crashes at the step `crash`.
class EpochsWithBackups : public testing::Test {
 protected:
  // What each step has seen, in the program that ran last.
  using Steps = std::vector<std::vector<int64_t>>;

  BackupReport train(int epochs, int64_t crash = -1) {
    OneDeviceStrategy strategy("CPU:0");
    const auto scope = strategy.scope();
    random::set_seed(5);
    Variable total(0.f);
    BackupAndRestore backup(strategy, {{"total", total}},
                            {.directory = directory_.path(), .every_steps = 3});
    const auto data = strategy.distribute_dataset(data::range(8).shuffle(8, {.seed = 3}).batch(2));
    seen_.clear();
    new_steps_.clear();
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const BackupReport report = backup.run(data, [&](const DistributedElement& element) {
        seen_.push_back(element[0].tensor().to_vector<int64_t>());
        total.assign_add(random::uniform(Shape{}) * static_cast<float>(seen_.back()[0]));
        if (backup.report().steps == crash) throw Error(Code::Internal, "power cut");
      });
      new_steps_.push_back(report.new_steps);
      total.assign(total.read_value() * 0.5f);  // the program may change what it trains
    }
    total_ = total.read_value().to<float>();
    return backup.report();
  }

  TemporaryDirectory directory_;
  Steps seen_;
  std::vector<int64_t> new_steps_;
  float total_ = 0;
};

TEST_F(EpochsWithBackups, AreEachTrained) {
  const BackupReport report = train(3);
  EXPECT_EQ(report.steps, 12);
  EXPECT_EQ(new_steps_, (std::vector<int64_t>{4, 4, 4}));
  EXPECT_EQ(seen_.size(), 12u);
  EXPECT_NE(Steps(seen_.begin(), seen_.begin() + 4), Steps(seen_.begin() + 4, seen_.begin() + 8));
}

// The crash comes in each epoch, before and after its first backup of its own, and at its ends.
TEST_F(EpochsWithBackups, GoOnInTheEpochInWhichTheyWereInterrupted) {
  train(3);
  const Steps all = seen_;
  const float total = total_;
  for (int64_t crash = 0; crash < 12; ++crash) {
    std::filesystem::remove_all(directory_.path());
    EXPECT_ERROR(Code::Internal, "power cut", train(3, crash));
    EXPECT_EQ(train(3).steps, 12);
    // The last backup was made at the beginning of the epoch, after 3 steps in all, and so on.
    const auto first = static_cast<ptrdiff_t>(std::max(crash / 4 * 4, crash / 3 * 3));
    EXPECT_EQ(seen_, Steps(all.begin() + first, all.end())) << crash;
    EXPECT_EQ(total_, total) << crash;
    EXPECT_EQ(std::accumulate(new_steps_.begin(), new_steps_.end(), first), 12) << crash;
  }
}

TEST_F(EpochsWithBackups, MayBecomeMoreInALaterProgram) {
  train(4);
  const Steps all = seen_;
  std::filesystem::remove_all(directory_.path());
  train(2);
  EXPECT_EQ(train(4).steps, 16);
  EXPECT_EQ(seen_, Steps(all.begin() + 8, all.end()));
  EXPECT_EQ(new_steps_, (std::vector<int64_t>{0, 0, 4, 4}));
}

TEST_F(EpochsWithBackups, GoOnInTheCallAfterAnError) {
  OneDeviceStrategy strategy("CPU:0");
  Variable total(int64_t{0});
  BackupAndRestore backup(strategy, {{"total", total}},
                          {.directory = directory_.path(), .every_steps = 1});
  const auto data = strategy.distribute_dataset(data::range(8).batch(2));
  bool fails = true;
  const auto step = [&](const DistributedElement& element) {
    if (backup.report().steps == 6 && std::exchange(fails, false)) {
      throw Error(Code::Internal, "no picture");
    }
    total.assign_add(sum(element[0].tensor()));
  };
  EXPECT_EQ(backup.run(data, step).new_steps, 4);
  EXPECT_ERROR(Code::Internal, "no picture", backup.run(data, step));
  EXPECT_EQ(backup.run(data, step).new_steps, 2);
  EXPECT_EQ(backup.report().steps, 8);
  EXPECT_EQ(total.read_value().to<int64_t>(), 2 * 28);
}

// A longer dataset changes nothing: the position of the backup is at the end of the data.
TEST_F(EpochsWithBackups, ThatHaveEndedAreAWarning) {
  train(1);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(train(1).steps, 4);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(
      log.find("[BackupAndRestore] run() makes no step: the last backup in '" + directory_.path() +
               "' is of step 4, at which the data of this run() had "
               "ended; for a new training, choose another directory or delete"),
      std::string::npos)
      << log;
  EXPECT_TRUE(seen_.empty());
}

TEST(Backups, OfAnotherNumberOfReplicasAreNamed) {
  const TemporaryDirectory directory;
  const auto run = [&](const std::vector<std::string>& devices) {
    MirroredStrategy strategy(devices);
    const auto scope = strategy.scope();
    Variable v(1.f);
    BackupAndRestore backup(strategy, {{"v", v}}, {.directory = directory.path()});
    backup.run(strategy.distribute_dataset(data::range(4).batch(2)),
               [](const DistributedElement&) {});
  };
  run({"CPU:0", "CPU:1"});
  EXPECT_ERROR(Code::InvalidArgument,
               "the backup '" + directory.path() +
                   "/backup-2' was saved by 1 worker with 2 replicas in all, and this run has 1 "
                   "worker with 1 replica in all; start as many as before, or choose another "
                   "directory",
               run({"CPU:0"}));
}

}  // namespace
}  // namespace cohort
