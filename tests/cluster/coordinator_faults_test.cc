// A coordinator and real processes that are killed, COHORT_KILLS times. The history is in the
// variables themselves: each function adds one to the number that is its own, so one that is not 1
// in the end was lost or was applied twice.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "cohort/cohort.h"
#include "support/eventually.h"
#include "support/log_file.h"
#include "support/process_cluster.h"
#include "support/scoped_environment.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

// Of workers; of servers two fifths as often, and of the chief one fifth.
int kills() {
  const char* asked = std::getenv("COHORT_KILLS");
  return asked != nullptr ? std::atoi(asked) : 5;
}

class CoordinatorFaults : public testing::Test {
 protected:
  // How many functions are about when something is killed.
  static constexpr int64_t kRound = 60;

  const int64_t functions_ = kRound * kills();
  test::ProcessCluster cluster_{COHORT_TEST_TASK, 2, 2};
  SimpleClusterResolver resolver_{cluster_.spec()};
  ParameterServerStrategy strategy_{resolver_};
  // On different servers.
  Variable left_ =
      strategy_.create([&] { return Variable(zeros({functions_}), {.name = "left"}); });
  Variable right_ =
      strategy_.create([&] { return Variable(zeros({functions_}), {.name = "right"}); });
  std::mt19937 random_{17};

  // Adds one to the entry that is its argument, and takes a little while.
  auto note() {
    return function([this](Tensor which) {
      const Tensor work = matmul(ones({64, 64}), ones({64, 64}));
      const Tensor one = reshape(work, {-1})[0] / 64.f;
      left_.scatter_add({reshape(one, {1}), which, {functions_}});
      right_.scatter_add({reshape(one, {1}), which, {functions_}});
    });
  }
  void kill(const std::string& job, int index) {
    cluster_.task(job, index).send(SIGKILL);
    cluster_.task(job, index).wait();
    cluster_.start(job, index);
  }
  int any(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  std::vector<float> once() const {
    return std::vector<float>(static_cast<size_t>(functions_), 1.f);
  }
};

TEST_F(CoordinatorFaults, KilledWorkersLoseAndRepeatNothing) {
  ClusterCoordinator coordinator(strategy_);
  const auto add = note();
  for (int64_t i = 0, at = 0; i < functions_; ++i) {
    if (i % kRound == 0) at = i + any(kRound);
    coordinator.schedule(add, Tensor({i}));
    if (i == at) kill("worker", any(2));
  }
  coordinator.join();
  EXPECT_EQ(left_.read_value().to_vector<float>(), once());
  EXPECT_EQ(right_.read_value().to_vector<float>(), once());
}

// Each batch is a function of its own; the last one is smaller.
TEST_F(CoordinatorFaults, EvaluationCountsEverySampleOnceThoughAWorkerIsKilled) {
  ClusterCoordinator coordinator(strategy_);
  Variable seen = strategy_.create([] { return Variable(int64_t{0}, {.name = "seen"}); });
  const auto judge = function([&](Tensor batch) {
    seen.assign_add(sum(ones_like(batch)));
    return sum(batch);
  });
  std::vector<RemoteValue<Tensor>> sums;
  for (const data::Element& batch : data::range(1000).batch(7)) {
    sums.push_back(coordinator.schedule(judge, batch.tensor()));
    if (sums.size() == 50) kill("worker", any(2));
  }
  int64_t total = 0;
  for (const Tensor& one : coordinator.fetch(sums)) total += one.to<int64_t>();
  EXPECT_EQ(total, 999 * 1000 / 2);
  coordinator.join();
  EXPECT_EQ(seen.read_value().to<int64_t>(), 1000);
}

TEST_F(CoordinatorFaults, KilledServersAreRestoredAndRepeatNothing) {
  const int times = std::max(1, kills() * 2 / 5);
  TemporaryDirectory directory;
  Checkpoint checkpoint({{"left", left_}, {"right", right_}});
  std::string saved;
  ClusterCoordinator coordinator(
      strategy_, {.restore = [&] { checkpoint.restore(saved); }, .restore_limit = times});
  const auto add = note();
  // Those that were over before the server was killed, and after what was saved, are lost.
  const auto make_up = [&] {
    const std::vector<float> left = left_.read_value().to_vector<float>();
    ASSERT_EQ(left, right_.read_value().to_vector<float>());
    for (int64_t i = 0; i < functions_; ++i) {
      const float times_made = left[static_cast<size_t>(i)];
      ASSERT_TRUE(times_made == 0 || times_made == 1) << i << ": " << times_made;
      if (times_made == 0) coordinator.schedule(add, Tensor({i}));
    }
    coordinator.join();
  };
  for (int round = 0; round < times; ++round) {
    saved = checkpoint.save(directory.path() + "/saved");
    const int64_t from = round * kRound;
    const int64_t at = from + any(kRound / 2);  // functions after it notice
    for (int64_t i = from; i < from + kRound; ++i) {
      coordinator.schedule(add, Tensor({i}));
      if (i == at) kill("ps", any(2));
    }
    coordinator.join();
  }
  make_up();
  EXPECT_EQ(left_.read_value().to_vector<float>(), once());
  EXPECT_EQ(right_.read_value().to_vector<float>(), once());
}

// Every function that runs meets it, and it counts once.
TEST_F(CoordinatorFaults, AServerThatIsFrozenForAWhileIsNoLoss) {
  constexpr std::chrono::milliseconds kFrozen{4500};  // tasks give each other up after 3 s
  ClusterCoordinator coordinator(strategy_, {.functions_per_worker = 8});
  const auto add = note();
  coordinator.fetch(coordinator.schedule(add, Tensor({int64_t{0}})));
  cluster_.task("ps", 0).freeze();
  for (int64_t i = 1; i < functions_; ++i) coordinator.schedule(add, Tensor({i}));
  std::this_thread::sleep_for(kFrozen);
  cluster_.task("ps", 0).send(SIGCONT);
  coordinator.join();
  EXPECT_EQ(left_.read_value().to_vector<float>(), once());
  EXPECT_EQ(right_.read_value().to_vector<float>(), once());
}

// With `restore`, too: the chief waits for the server, whose variables are not lost. The limit of
// two incidents leaves no room for a second one.
TEST_F(CoordinatorFaults, AServerThatIsFrozenUntilItIsGivenUpIsOneIncident) {
  const ScopedEnvironment limit(
      ScopedEnvironment::Variables{{"TF_COORDINATOR_IGNORE_TRANSIENT_PS_FAILURES", "2"}});
  int restored = 0;
  ClusterCoordinator coordinator(strategy_,
                                 {.functions_per_worker = 8, .restore = [&] { ++restored; }});
  const auto add = note();
  coordinator.fetch(coordinator.schedule(add, Tensor({int64_t{0}})));
  {
    const test::LogFile log;
    cluster_.task("ps", 0).freeze();
    for (int64_t i = 1; i < functions_; ++i) coordinator.schedule(add, Tensor({i}));
    // The chief has found the server silent before it writes this line.
    EXPECT_TRUE(test::eventually([&] {
      return log.contains("[Coordinator] /job:ps/replica:0/task:0: ");
    })) << log.text();
    cluster_.task("ps", 0).send(SIGCONT);
    coordinator.join();
  }
  EXPECT_EQ(restored, 0);
  EXPECT_EQ(left_.read_value().to_vector<float>(), once());
  EXPECT_EQ(right_.read_value().to_vector<float>(), once());
}

// It has the gradients that wait for the last update, so there is nothing to restore.
TEST_F(CoordinatorFaults, TheLastUpdateIsMadeWhenAServerThatWasFrozenIsBack) {
  constexpr std::chrono::milliseconds kFrozen{14000};  // the chief gives it up after 10 s
  ParameterServerStrategy strategy(resolver_, {.sync = true});
  Variable v = strategy.create([] { return Variable(10.f, {.name = "v"}); });
  optim::Sgd optimizer({.learning_rate = 0.5});
  int restored = 0;
  ClusterCoordinator coordinator(strategy, {.restore = [&] { ++restored; }});
  const auto step =
      function([&](Tensor gradient) { optimizer.apply_gradients({Gradient(gradient)}, {v}); });
  coordinator.fetch(coordinator.schedule(step, Tensor(4.f)));  // waits for a second one
  cluster_.task("ps", 0).freeze();
  const std::jthread later([&] {
    std::this_thread::sleep_for(kFrozen);
    cluster_.task("ps", 0).send(SIGCONT);
  });
  coordinator.join();
  EXPECT_EQ(restored, 0);
  EXPECT_EQ(v.read_value().to<float>(), 8);
  EXPECT_EQ(optimizer.iterations().read_value().to<int64_t>(), 1);
}

TEST_F(CoordinatorFaults, AKilledChiefGoesOnWhereItSaved) {
  const int times = std::max(1, kills() / 5);
  TemporaryDirectory directory;
  const std::vector<std::string> words{COHORT_TEST_CHIEF, cluster_.joined("ps"),
                                       cluster_.joined("worker"), directory.path(),
                                       std::to_string(200 * (times + 1))};
  for (int i = 0; i < times; ++i) {
    test::Process chief(words);
    ASSERT_TRUE(test::eventually([&] { return chief.output().find("saved") != std::string::npos; }))
        << chief.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(any(100)));  // anywhere in what it does
    chief.send(SIGKILL);
    chief.wait();
  }
  test::Process last(words);
  EXPECT_EQ(last.wait(std::chrono::seconds(120)), 0) << last.output();
}

// What a process of this host has in memory, in megabytes, and how many files are open.
struct Footprint {
  explicit Footprint(pid_t process) {
    const std::string directory = "/proc/" + std::to_string(process);
    std::ifstream status(directory + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) megabytes = std::stoll(line.substr(6)) / 1024;
    }
    for ([[maybe_unused]] const auto& file :
         std::filesystem::directory_iterator(directory + "/fd")) {
      ++files;
    }
  }
  int64_t megabytes = 0;
  int64_t files = 0;
};

// COHORT_CALLS says how many functions; memory that is needed for good is there after a quarter.
TEST_F(CoordinatorFaults, ManyFunctionsLeaveNothingBehind) {
  constexpr int64_t kNoise = 4;  // the heaps of many threads grow for a while, and then no more
  const char* asked = std::getenv("COHORT_CALLS");
  const int calls = asked != nullptr ? std::atoi(asked) : 8000;
  ClusterCoordinator coordinator(strategy_);
  const auto add = note();
  const auto run = [&](int count) {
    for (int i = 1; i <= count; ++i) {
      coordinator.schedule(add, Tensor({int64_t{0}}));
      if (i % 500 == 0 || i == count) coordinator.join();  // those that wait need memory, too
    }
  };
  const auto look = [&] {
    std::map<std::string, Footprint> all{{"chief", Footprint(getpid())}};
    for (const char* job : {"ps", "worker"}) {
      for (int i = 0; i < 2; ++i) {
        all.emplace(job + std::to_string(i), Footprint(cluster_.task(job, i).id()));
      }
    }
    return all;
  };
  run(calls / 4);
  const auto before = look();
  run(calls - calls / 4);
  for (const auto& [task, after] : look()) {
    EXPECT_LE(after.files, before.at(task).files) << task;
    EXPECT_LE(after.megabytes, before.at(task).megabytes + kNoise) << task;
  }
  EXPECT_EQ(left_.read_value().to_vector<float>()[0], static_cast<float>(calls));
}

TEST_F(CoordinatorFaults, AKilledServerIsAnErrorOtherwise) {
  ClusterCoordinator coordinator(strategy_);
  const auto add = note();
  coordinator.fetch(coordinator.schedule(add, Tensor({int64_t{0}})));
  cluster_.task("ps", 0).send(SIGKILL);
  cluster_.task("ps", 0).wait();
  const Status status = capture_status([&] {
    for (int i = 0; i < 10; ++i) coordinator.schedule(add, Tensor({int64_t{1}}));
    coordinator.join();
  });
  EXPECT_EQ(status.code, Code::Unavailable) << status.to_string();
  EXPECT_NE(status.message.find("/job:ps/replica:0/task:0 is lost"), std::string::npos)
      << status.message;
}

TEST_F(CoordinatorFaults, ServersOutliveTheChiefAndEndWhenTold) {
  testing::internal::CaptureStderr();
  {
    ClusterCoordinator coordinator(strategy_);
    coordinator.fetch(coordinator.schedule([] { return Tensor(1.f); }));
    coordinator.shutdown_cluster();
  }
  for (const char* job : {"ps", "worker"}) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cluster_.task(job, i).wait(std::chrono::seconds(20)), 0);
      const std::string output = cluster_.task(job, i).output();
      EXPECT_EQ(output.find(" W ["), std::string::npos) << job << " " << i << ": " << output;
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace cohort
