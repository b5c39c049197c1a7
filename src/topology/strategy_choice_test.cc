#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/scoped_environment.h"
#include "topology/resolver_inputs.h"

namespace cohort::internal {
namespace {

struct Start {
  std::string name;  // of COHORT_STRATEGY
  ClusterSpec cluster = ClusterSpec();
  std::string task = {};
  size_t devices = 1;
};

StrategyChoice chosen(const Start& start) {
  const ScopedEnvironment environment({{kStrategyVariable, start.name}});
  SimpleResolverOptions options;
  if (!start.task.empty()) options = {.task_type = start.task, .task_id = 0};
  return choose_strategy(SimpleClusterResolver(start.cluster, options), start.devices);
}

const ClusterSpec kOne({{"worker", {"h:1"}}});
const ClusterSpec kWorkers({{"worker", {"h:1", "h:2"}}});
const ClusterSpec kChiefAndWorker({{"chief", {"h:1"}}, {"worker", {"h:2"}}});
const ClusterSpec kServers({{"chief", {"h:1"}}, {"worker", {"h:2"}}, {"ps", {"h:3"}}});
const ClusterSpec kNoChief({{"worker", {"h:2"}}, {"ps", {"h:3"}}});

TEST(StrategyChoice, FollowsTheCluster) {
  EXPECT_EQ(chosen({}), StrategyChoice::OneDevice);
  EXPECT_EQ(chosen({.name = "", .devices = 2}), StrategyChoice::Mirrored);
  EXPECT_EQ(chosen({"", kOne, "worker"}), StrategyChoice::OneDevice);
  EXPECT_EQ(chosen({"", kOne, "worker", 4}), StrategyChoice::Mirrored);
  EXPECT_EQ(chosen({"", kWorkers, "worker"}), StrategyChoice::MultiWorker);
  EXPECT_EQ(chosen({"", kChiefAndWorker, "chief", 4}), StrategyChoice::MultiWorker);
  for (const char* task : {"chief", "worker", "ps"}) {
    EXPECT_EQ(chosen({"", kServers, task}), StrategyChoice::ParameterServer) << task;
  }
}

TEST(StrategyChoice, IsTheOneThatIsNamed) {
  EXPECT_EQ(chosen({.name = "one_device", .devices = 4}), StrategyChoice::OneDevice);
  EXPECT_EQ(chosen({"mirrored"}), StrategyChoice::Mirrored);
  EXPECT_EQ(chosen({"central_storage"}), StrategyChoice::CentralStorage);
  EXPECT_EQ(chosen({"multi_worker", kOne, "worker"}), StrategyChoice::MultiWorker);
  EXPECT_EQ(chosen({"parameter_server", kServers, "chief"}), StrategyChoice::ParameterServer);
  EXPECT_EQ(chosen({"mirrored", kWorkers, "worker"}), StrategyChoice::Mirrored);
}

TEST(StrategyChoice, LeavesAnEvaluatorOnItsOwn) {
  EXPECT_EQ(chosen({"", kServers, "evaluator"}), StrategyChoice::OneDevice);
  EXPECT_EQ(chosen({"parameter_server", kServers, "evaluator", 2}), StrategyChoice::Mirrored);
  EXPECT_EQ(chosen({"multi_worker", kWorkers, "evaluator"}), StrategyChoice::OneDevice);
  EXPECT_EQ(chosen({"central_storage", kWorkers, "evaluator"}), StrategyChoice::CentralStorage);
}

TEST(StrategyChoice, SaysWhatIsWrong) {
  EXPECT_ERROR(
      Code::InvalidArgument,
      "COHORT_STRATEGY is 'mirored', which is not a strategy; use 'one_device', 'mirrored', "
      "'central_storage', 'multi_worker', 'parameter_server'; did you mean 'mirrored'?",
      chosen({"mirored"}));
  EXPECT_ERROR(Code::InvalidArgument, "is 'zzzzzz', which is not a strategy; use",
               chosen({"zzzzzz"}));
  EXPECT_ERROR(Code::InvalidArgument, "--strategy is 'Mirrored', which is not a strategy",
               parse_strategy("Mirrored", "[Run] --strategy"));
  for (const char* task : {"worker", "ps"}) {
    EXPECT_ERROR(Code::InvalidArgument, "needs a chief", chosen({"", kNoChief, task}));
  }
  EXPECT_EQ(chosen({"", kNoChief}), StrategyChoice::ParameterServer) << "the chief is no task";
}

}  // namespace
}  // namespace cohort::internal
