// What functions, and those who run them, do wrong: with a coordinator and real processes.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/process_cluster.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

class BadFunctions : public testing::Test {
 protected:
  test::ProcessCluster cluster_{COHORT_TEST_TASK, 2, 2};
  SimpleClusterResolver resolver_{cluster_.spec()};
  ParameterServerStrategy strategy_{resolver_};
  ClusterCoordinator coordinator_{strategy_, {.function_timeout = milliseconds(2000)}};

  // Of the function that the servers' program has under that name.
  Status call(const char* name) {
    const auto result = coordinator_.schedule_native(name, {Tensor(1.f)}, {{kFloat32, {}}});
    const Status status = capture_status([&] { coordinator_.fetch(result); });
    EXPECT_EQ(capture_status([&] { coordinator_.join(); }).code, status.code);
    return status;
  }
  void expect_works() {
    const auto result =
        coordinator_.schedule_native("cluster_test_twice", {Tensor(2.f)}, {{kFloat32, {}}});
    EXPECT_EQ(coordinator_.fetch(result)[0].to<float>(), 4);
    coordinator_.join();
  }
};

void expect_says(const Status& status, const std::vector<const char*>& parts) {
  for (const char* part : parts) {
    EXPECT_NE(status.to_string().find(part), std::string::npos) << part << "\n" << status;
  }
}

TEST_F(BadFunctions, ThatThrowAreNamedWithTheirWorker) {
  const Status status = call("cluster_test_throws");
  expect_says(status, {"cluster_test_throws", "the disk is full", "/job:worker/replica:0/task:"});
  expect_works();
}

TEST_F(BadFunctions, ThatReturnAnotherShapeAreToldWhich) {
  const Status status = call("cluster_test_wrong_shape");
  EXPECT_EQ(status.code, Code::InvalidArgument) << status;
  expect_says(status, {"cluster_test_wrong_shape", "(2,)", "/job:worker/replica:0/task:"});
  expect_works();
}

TEST_F(BadFunctions, ThatNeverReturnEndAtTheirDeadline) {
  const Status status = call("cluster_test_waits");
  EXPECT_EQ(status.code, Code::DeadlineExceeded) << status;
  expect_says(status, {"2000 ms", "/job:worker/replica:0/task:"});
  expect_works();
}

TEST_F(BadFunctions, ThatTheServersDoNotHaveSayWhereTheyBelong) {
  const Status status = call("cluster_test_nowhere");
  EXPECT_EQ(status.code, Code::NotFound) << status;
  expect_says(status, {"cluster_test_nowhere", "must register it with COHORT_FUNCTION"});
  expect_works();
}

TEST_F(BadFunctions, ThatCannotBeSentAreRefusedAtOnce) {
  const Variable mine(1.f, {.name = "mine"});
  EXPECT_ERROR(Code::FailedPrecondition, "variable 'mine' of this process",
               coordinator_.schedule([&] { return mine.read_value(); }));
  data::Iterator iterator = data::range(3).iterator();
  EXPECT_ERROR(Code::FailedPrecondition, "of this process, whose elements workers do not reach",
               coordinator_.schedule([&] { return iterator.next().tensor(); }));
  EXPECT_ERROR(Code::FailedPrecondition, "a tensor of the graph or function around it",
               function([&](Tensor x) {
                 coordinator_.schedule([&] { return x + 1.f; });
                 return x;
               })(Tensor(1.f)));
  EXPECT_TRUE(coordinator_.done());
  expect_works();
}

// What the process may have more than it has.
void limit_memory(pid_t process, int64_t more_bytes) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  int64_t kilobytes = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmSize:")) kilobytes = std::stoll(line.substr(7));
  }
  const auto bytes = static_cast<rlim_t>(kilobytes * 1024 + more_bytes);
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ASSERT_EQ(prlimit(process, RLIMIT_AS, &limit, nullptr), 0);
}

TEST(SmallServers, AreNamedWithWhatTheyHold) {
  test::ProcessCluster cluster(COHORT_TEST_TASK, 2, 1);
  const SimpleClusterResolver resolver(cluster.spec());
  ParameterServerStrategy strategy(resolver);
  const auto scope = strategy.scope();
  const Variable small(zeros({1000}), {.name = "small"});
  const Variable other(zeros({1000}), {.name = "other"});
  constexpr int64_t kMegabyte = 1 << 20;
  limit_memory(cluster.task("ps", 0).id(), 40 * kMegabyte);
  const Status status =
      capture_status([&] { Variable(zeros({160 * kMegabyte}), {.name = "large"}); });
  EXPECT_EQ(status.code, Code::ResourceExhausted) << status;
  expect_says(status, {"/job:ps/replica:0/task:0", "'large'", "671088640 bytes", "ps 0: 4000 bytes",
                       "ps 1: 4000 bytes"});
  EXPECT_EQ(strategy.plan().total_bytes(), 8000);
}

}  // namespace
}  // namespace cohort
