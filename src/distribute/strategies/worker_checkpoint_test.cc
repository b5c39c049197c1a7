// Checkpoints and backups that several workers make together.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_workers.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

constexpr int kWorkers = 2;

std::string printed(const DistributedElement& element) {
  std::ostringstream out;
  out << element;
  return out.str();
}

// All workers are at the same call: a sum has a part of each.
void expect_in_step(MultiWorkerMirroredStrategy& strategy) {
  const auto ones = strategy.run([] { return Tensor(1.f); });
  EXPECT_EQ(strategy.reduce(ReduceOp::Sum, ones).to<float>(), kWorkers);
}

// A sum that saving reads from all workers.
Variable total_of_all(MultiWorkerMirroredStrategy& strategy) {
  return strategy.create([] {
    return Variable(0.f, {.synchronization = VariableSynchronization::OnRead,
                          .aggregation = VariableAggregation::Sum});
  });
}

class WorkerCheckpoints : public testing::Test {
 protected:
  WorkerCheckpoints() { std::ofstream(in_the_way()) << "no directory"; }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string in_the_way() const { return path("file"); }
  const std::string& directory() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(WorkerCheckpoints, KeepThePositionOfEachWorker) {
  std::vector<std::string> expected(kWorkers), found(kWorkers);
  const auto dataset_of = [](MultiWorkerMirroredStrategy& strategy) {
    return strategy.distribute_dataset(
        data::range(24).batch(4).options({.auto_shard_policy = data::AutoShardPolicy::Data}));
  };
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = dataset_of(strategy);
    DistributedIterator input = dataset.iterator();
    input.next();
    const Variable v = strategy.create([] { return Variable(1.f); });
    Checkpoint checkpoint({{"v", v}, {"input", Trackable::position(dataset, input)}});
    checkpoint.write(path("ckpt"));
    expected[static_cast<size_t>(strategy.worker_id())] = printed(input.next());
  });
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto dataset = dataset_of(strategy);
    DistributedIterator input = dataset.iterator();
    const Variable v = strategy.create([] { return Variable(0.f); });
    Checkpoint checkpoint({{"v", v}, {"input", Trackable::position(dataset, input)}});
    checkpoint.read(path("ckpt")).assert_consumed();
    found[static_cast<size_t>(strategy.worker_id())] = printed(input.next());
  });
  EXPECT_EQ(found, expected);
  EXPECT_NE(found[0], found[1]);
}

TEST_F(WorkerCheckpoints, OfBytesAreReadByAnotherNumberOfWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto scope = strategy.scope();
    const std::string own = "worker " + std::to_string(strategy.worker_id());
    Checkpoint({{"who", Trackable::bytes([&] { return own; }, [](const std::string&) {})}})
        .write(path("ckpt"));
  });
  std::string found;
  Checkpoint({{"who", Trackable::bytes([] { return ""; },
                                       [&](const std::string& saved) { found = saved; })}})
      .read(path("ckpt"))
      .assert_consumed();
  EXPECT_EQ(found, "worker 0");  // the chief
}

// The chief alone writes; the others do not go on before it has.
TEST_F(WorkerCheckpoints, ExistOnEveryWorkerThatHasSaved) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    Checkpoint checkpoint({{"total", total_of_all(strategy)}});
    for (int i = 0; i < 5; ++i) {
      const std::string prefix = checkpoint.save(path("ckpt"));
      EXPECT_TRUE(checkpoint_exists(prefix)) << prefix;
      EXPECT_EQ(get_checkpoint_state(directory())->latest, prefix);
    }
  });
}

// The values are large enough that the chief still writes when the other worker waits.
TEST_F(WorkerCheckpoints, ThatAreWrittenInTheBackgroundExistOnEveryWorkerThatHasWaited) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const Variable large = strategy.create([] { return Variable(zeros({1 << 20})); });
    Checkpoint checkpoint({{"large", large}}, {.asynchronous = true});
    for (int i = 0; i < 5; ++i) {
      const std::string prefix = checkpoint.save(path("ckpt"));
      checkpoint.wait();
      EXPECT_TRUE(checkpoint_exists(prefix)) << prefix;
      EXPECT_EQ(get_checkpoint_state(directory()).value_or(CheckpointState{}).latest, prefix);
    }
    checkpoint.wait();  // there is nothing to wait for
    expect_in_step(strategy);
  });
}

TEST_F(WorkerCheckpoints, ThatFailedInTheBackgroundFailAWaitOnAllWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    Checkpoint checkpoint({{"total", total_of_all(strategy)}}, {.asynchronous = true});
    checkpoint.write(in_the_way() + "/below/ckpt");
    EXPECT_ERROR(Code::FailedPrecondition, "on worker 0", checkpoint.wait());
    checkpoint.wait();  // told once
    expect_in_step(strategy);
    checkpoint.write(path("ckpt"));
    checkpoint.wait();
    EXPECT_TRUE(checkpoint_exists(path("ckpt")));
  });
}

TEST_F(WorkerCheckpoints, ThatTheChiefCannotWriteFailOnAllWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    Checkpoint checkpoint({{"total", total_of_all(strategy)}});
    EXPECT_ERROR(Code::FailedPrecondition, "on worker 0",
                 checkpoint.write(in_the_way() + "/below/ckpt"));
    expect_in_step(strategy);
    checkpoint.write(path("ckpt"));
  });
}

// What the chief met while the workers went on is thrown by the next save, which reads sums of all
// workers.
TEST_F(WorkerCheckpoints, ThatFailedInTheBackgroundFailTheNextOneOnAllWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    Checkpoint checkpoint({{"total", total_of_all(strategy)}}, {.asynchronous = true});
    checkpoint.write(in_the_way() + "/below/ckpt");
    EXPECT_ERROR(Code::FailedPrecondition, "on worker 0", checkpoint.write(path("ckpt")));
    expect_in_step(strategy);
    checkpoint.write(path("ckpt"));
    checkpoint.wait();
  });
}

TEST_F(WorkerCheckpoints, OfBytesThatOneWorkerCannotMakeFailOnAll) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const bool fails = !strategy.is_chief();
    Checkpoint checkpoint({{"total", total_of_all(strategy)},
                           {"bytes", Trackable::bytes(
                                         [&]() -> std::string {
                                           if (fails) throw Error(Code::Internal, "no bytes here");
                                           return "bytes";
                                         },
                                         [](const std::string&) {})}});
    EXPECT_ERROR(Code::Internal, "no bytes here", checkpoint.write(path("ckpt")));
    expect_in_step(strategy);
  });
  EXPECT_FALSE(latest_checkpoint(path("")).has_value());
}

// What each worker threw names both calls.
void expect_named(const std::vector<Status>& statuses, const std::vector<const char*>& parts) {
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const char* const part : parts) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << " in " << status.message;
    }
  }
}

Trackable own_bytes() {
  return Trackable::bytes([] { return "bytes"; }, [](const std::string&) {});
}

TEST_F(WorkerCheckpoints, OfOneWorkerAreNotPutIntoAnotherOne) {
  expect_named(test::run_workers(kWorkers,
                                 [&](MultiWorkerMirroredStrategy& strategy) {
                                   const auto scope = strategy.scope();
                                   Checkpoint best({{"bytes", own_bytes()}});
                                   Checkpoint last({{"bytes", own_bytes()}});
                                   if (strategy.is_chief()) best.save(path("best"));
                                   last.save(path("last"));
                                 }),
               {"checkpoint 'best-1'", "checkpoint 'last-1'"});
}

TEST_F(WorkerCheckpoints, OfOneNameAreToldApartByTheirLines) {
  expect_named(test::run_workers(kWorkers,
                                 [&](MultiWorkerMirroredStrategy& strategy) {
                                   const auto scope = strategy.scope();
                                   Checkpoint best({{"bytes", own_bytes()}});
                                   Checkpoint last({{"bytes", own_bytes()}});
                                   if (strategy.is_chief()) best.save(path("best/ckpt"));
                                   last.save(path("last/ckpt"));
                                 }),
               {"checkpoint 'ckpt-1'", "at worker_checkpoint_test.cc:", "at one place"});
}

TEST_F(WorkerCheckpoints, ThatOnlyTheChiefSavesAreNamedBesideTheCallOfTheOther) {
  expect_named(test::run_workers(kWorkers,
                                 [&](MultiWorkerMirroredStrategy& strategy) {
                                   const auto scope = strategy.scope();
                                   const auto data =
                                       strategy.distribute_dataset(data::range(8).batch(2));
                                   Checkpoint checkpoint({{"bytes", own_bytes()}});
                                   if (strategy.is_chief()) checkpoint.save(path("ckpt"));
                                   data.iterator().next();
                                 }),
               {"checkpoint 'ckpt-1'", "the start of a walk over the data"});
}

TEST_F(WorkerCheckpoints, ThatOnlyTheChiefWaitsForAreNamedBesideTheCallOfTheOther) {
  expect_named(
      test::run_workers(kWorkers,
                        [&](MultiWorkerMirroredStrategy& strategy) {
                          const auto scope = strategy.scope();
                          const auto data = strategy.distribute_dataset(data::range(8).batch(2));
                          Checkpoint checkpoint({{"bytes", own_bytes()}}, {.asynchronous = true});
                          checkpoint.save(path("ckpt"));
                          if (strategy.is_chief()) checkpoint.wait();
                          data.iterator().next();
                        }),
      {"checkpoint 'ckpt-1'", "the start of a walk over the data"});
}

BackupOptions backup_in(const std::string& directory) {
  return {.directory = directory, .every_steps = 2};
}

void no_step(const DistributedElement&) {}

DistributedDataset four_steps(Strategy& strategy) {
  return strategy.distribute_dataset(data::range(8).batch(2));
}

TEST_F(WorkerCheckpoints, BackupsThatTheChiefCannotMakeFailOnAllWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const Variable v = strategy.create([] { return Variable(1.f); });
    BackupAndRestore backup(strategy, {{"v", v}}, backup_in(in_the_way() + "/below"));
    EXPECT_ERROR(Code::FailedPrecondition, "on worker 0",
                 backup.run(four_steps(strategy), no_step));
    expect_in_step(strategy);
  });
}

TEST_F(WorkerCheckpoints, BackupsThatOneWorkerCannotReadFailOnAllWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    const auto back_up = [&](bool reads) {
      const auto bytes = Trackable::bytes([] { return "bytes"; },
                                          [reads](const std::string&) {
                                            if (!reads) throw Error(Code::Internal, "unreadable");
                                          });
      BackupAndRestore backup(strategy, {{"bytes", bytes}}, backup_in(path("backup")));
      backup.run(four_steps(strategy), no_step);
    };
    back_up(true);
    EXPECT_ERROR(Code::Internal, "unreadable", back_up(strategy.is_chief()));
    expect_in_step(strategy);
  });
}

// It is of a code that says that another worker is lost.
TEST_F(WorkerCheckpoints, AnErrorThatComesBackEndsATrainingWithBackupsOnAllWorkers) {
  test::on_workers(kWorkers, [&](MultiWorkerMirroredStrategy& strategy) {
    BackupAndRestore backup(strategy, {}, backup_in(path("backup")));
    int met = 0;
    const auto fail = [&](const DistributedElement&) {
      if (strategy.is_chief()) return expect_in_step(strategy);
      ++met;
      throw Error(Code::Unavailable, "the meter does not answer");
    };
    EXPECT_ERROR(Code::FailedPrecondition, "ends on all", backup.run(four_steps(strategy), fail));
    EXPECT_EQ(met, strategy.is_chief() ? 0 : 3);
  });
}

TEST_F(WorkerCheckpoints, ASecondRunIsKeptFromTheBackupsOfTheFirst) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  const auto train = [&](const BackupAndRestore::Step& step) {
    BackupAndRestore backup(strategy, {}, backup_in(path("backup")));
    backup.run(four_steps(strategy), step);
  };
  bool refused = false;
  train([&](const DistributedElement&) {
    const Status status = capture_status([&] { train(no_step); });
    EXPECT_EQ(status.code, Code::FailedPrecondition) << status.to_string();
    for (const std::string& part :
         {"of this same process, process " + std::to_string(getpid()) + " on host",
          std::string("run '"), path("backup")}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
    }
    refused = true;
  });
  EXPECT_TRUE(refused);
  train(no_step);  // the first one has ended
}

TEST_F(WorkerCheckpoints, BackupsOfAnotherHostThatWereNotGivenFreeAreAWarning) {
  OneDeviceStrategy strategy("CPU:0");
  const auto scope = strategy.scope();
  std::filesystem::create_directories(path("backup"));
  std::ofstream(path("backup") + "/lock") << "elsewhere\nprocess 12 on host elsewhere\n";
  ::testing::internal::CaptureStderr();
  BackupAndRestore backup(strategy, {}, backup_in(path("backup")));
  EXPECT_EQ(backup.run(four_steps(strategy), no_step).steps, 4);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("last used by process 12 on host elsewhere"), std::string::npos) << log;
}

}  // namespace
}  // namespace cohort
