#include <gtest/gtest.h>

#include <thread>

#include "cohort/cohort.h"
#include "cohort/strategy.h"
#include "support/expect_error.h"
#include "support/free_ports.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

// What a process with these variables gets; the strategies of real clusters are in
// tests/launch/strategy_test.cc.
std::string strategy_of(const std::string& name, const std::string& tf_config = "{}") {
  const ScopedEnvironment environment({{"COHORT_STRATEGY", name}, {"TF_CONFIG", tf_config}});
  return strategy_from_environment()->extended().name();
}

TEST(StrategyFromEnvironment, IsOneDeviceWhereNothingIsSaid) {
  EXPECT_EQ(strategy_of(""), "OneDeviceStrategy");
  EXPECT_EQ(strategy_of("", R"({"cluster": {"worker": ["127.0.0.1:1"]},
                               "task": {"type": "worker", "index": 0}})"),
            "OneDeviceStrategy");
}

TEST(StrategyFromEnvironment, IsTheOneThatIsNamed) {
  EXPECT_EQ(strategy_of("one_device"), "OneDeviceStrategy");
  EXPECT_EQ(strategy_of("mirrored"), "MirroredStrategy");
  EXPECT_EQ(strategy_of("central_storage"), "CentralStorageStrategy");
  EXPECT_EQ(strategy_of("multi_worker"), "MultiWorkerMirroredStrategy");
}

TEST(StrategyFromEnvironment, LeavesAnEvaluatorOnItsOwn) {
  EXPECT_EQ(strategy_of("", R"({"cluster": {"chief": ["h:1"], "worker": ["h:2"], "ps": ["h:3"]},
                               "task": {"type": "evaluator", "index": 0}})"),
            "OneDeviceStrategy");
}

TEST(StrategyFromEnvironment, SaysWhatIsWrongWithTheEnvironment) {
  EXPECT_ERROR(Code::InvalidArgument, "did you mean 'multi_worker'?", strategy_of("multiworker"));
  EXPECT_ERROR(Code::InvalidArgument, "the cluster is empty", strategy_of("parameter_server"));
  EXPECT_ERROR(Code::InvalidArgument, "there is no ps task",
               strategy_of("parameter_server", R"({"cluster": {"chief": ["h:1"], "worker": ["h:2"]},
                                                  "task": {"type": "worker", "index": 0}})"));
  EXPECT_ERROR(Code::InvalidArgument, "needs a chief",
               strategy_of("", R"({"cluster": {"worker": ["h:1"], "ps": ["h:2"]},
                                  "task": {"type": "worker", "index": 0}})"));
  EXPECT_ERROR(Code::InvalidArgument, "TF_CONFIG", strategy_of("", "{"));
}

// A chief that failed may be started again, so its servers stay. They end with the next chief,
// which does not fail.
TEST(StrategyFromEnvironment, EndsTheServersUnlessTheChiefFails) {
  const std::vector<std::string> at = test::free_addresses(3);
  const ClusterSpec cluster({{"chief", {at[0]}}, {"worker", {at[1]}}, {"ps", {at[2]}}});
  const ScopedEnvironment environment(
      {{"COHORT_STRATEGY", std::nullopt},
       {"TF_CONFIG", R"({"cluster": {"chief": [")" + at[0] + R"("], "worker": [")" + at[1] +
                         R"("], "ps": [")" + at[2] +
                         R"("]}, "task": {"type": "chief", "index": 0}})"}});
  const auto serve = [&cluster](const std::string& job) {
    return std::jthread([&cluster, job] {
      EXPECT_TRUE(serve_task(SimpleClusterResolver(cluster, {.task_type = job, .task_id = 0})));
    });
  };
  const auto ps = serve("ps"), worker = serve("worker");
  const auto fail = [] {
    const auto strategy = strategy_from_environment();
    throw Error(Code::DataLoss, "a bad example");
  };
  EXPECT_ERROR(Code::DataLoss, "a bad example", fail());
  const auto strategy = strategy_from_environment();
  EXPECT_EQ(strategy->extended().name(), "ParameterServerStrategy");
  ClusterCoordinator coordinator(*strategy);
  EXPECT_EQ(coordinator.fetch(coordinator.schedule([] { return Tensor(3.f); })).to<float>(), 3);
}

}  // namespace
}  // namespace cohort
