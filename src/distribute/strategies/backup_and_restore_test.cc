// Training that stops in the middle and goes on. With several processes: tests/cluster.

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace cohort
