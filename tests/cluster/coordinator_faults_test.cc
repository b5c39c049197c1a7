// A coordinator and real processes that are killed. The history is in the variables themselves:
// each function adds one to the number that is its own, so one that is not 1 in the end was lost
// or was applied twice.

#include <gtest/gtest.h>

#include <random>

#include "cohort/cohort.h"
#include "support/process_cluster.h"

namespace cohort {
namespace {

constexpr int64_t kFunctions = 400;

class CoordinatorFaults : public testing::Test {
 protected:
  test::ProcessCluster cluster_{COHORT_TEST_TASK, 2, 2};
  SimpleClusterResolver resolver_{cluster_.spec()};
  ParameterServerStrategy strategy_{resolver_};
  // On different servers.
  Variable left_ = strategy_.create([] { return Variable(zeros({kFunctions}), {.name = "left"}); });
  Variable right_ =
      strategy_.create([] { return Variable(zeros({kFunctions}), {.name = "right"}); });
  std::mt19937 random_{17};

  // Adds one to the entry that is its argument, and takes a little while.
  auto note() {
    return function([this](Tensor which) {
      const Tensor work = matmul(ones({64, 64}), ones({64, 64}));
      const Tensor one = reshape(work, {-1})[0] / 64.f;
      left_.scatter_add({reshape(one, {1}), which, {kFunctions}});
      right_.scatter_add({reshape(one, {1}), which, {kFunctions}});
    });
  }
  void kill(const std::string& job, int index) {
    cluster_.task(job, index).send(SIGKILL);
    cluster_.task(job, index).wait();
    cluster_.start(job, index);
  }
  static std::vector<float> once() { return std::vector<float>(kFunctions, 1.f); }
};

TEST_F(CoordinatorFaults, KilledWorkersLoseAndRepeatNothing) {
  ClusterCoordinator coordinator(strategy_);
  const auto add = note();
  for (int64_t i = 0; i < kFunctions; ++i) {
    coordinator.schedule(add, Tensor({i}));
    if (i % 80 == 40) kill("worker", static_cast<int>(random_() % 2));
  }
  coordinator.join();
  EXPECT_EQ(left_.read_value().to_vector<float>(), once());
  EXPECT_EQ(right_.read_value().to_vector<float>(), once());
}

TEST_F(CoordinatorFaults, AKilledServerIsRestored) {
  Checkpoint checkpoint({{"left", left_}, {"right", right_}});
  std::string saved = checkpoint.save(testing::TempDir() + "/coordinator_faults");
  ClusterCoordinator coordinator(strategy_, {.restore = [&] { checkpoint.restore(saved); }});
  const auto add = note();
  const auto run_half = [&](int64_t from) {
    for (int64_t i = from; i < from + kFunctions / 2; ++i) coordinator.schedule(add, Tensor({i}));
    coordinator.join();
  };
  run_half(0);
  saved = checkpoint.save(testing::TempDir() + "/coordinator_faults");
  kill("ps", 1);
  run_half(kFunctions / 2);  // begins with what was saved, on both servers
  EXPECT_EQ(left_.read_value().to_vector<float>(), once());
  EXPECT_EQ(right_.read_value().to_vector<float>(), once());
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
  {
    ClusterCoordinator coordinator(strategy_);
    coordinator.fetch(coordinator.schedule([] { return Tensor(1.f); }));
    coordinator.shutdown_cluster();
  }
  for (const char* job : {"ps", "worker"}) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(cluster_.task(job, i).wait(std::chrono::seconds(20)), 0);
    }
  }
}

}  // namespace
}  // namespace cohort
