// Which clusters and tasks a ParameterServerStrategy takes.

#include <gtest/gtest.h>

#include "coordinator/parameter_server_strategy.h"
#include "support/expect_error.h"
#include "support/free_ports.h"

namespace cohort {
namespace {

void check(const ClusterSpec& cluster, SimpleResolverOptions options = {}) {
  internal::check_roles(SimpleClusterResolver(cluster, std::move(options)));
}

const ClusterSpec kGood({{"chief", {"h:1"}}, {"ps", {"h:2"}}, {"worker", {"h:3", "h:4"}}});

TEST(Roles, AreChiefWorkerPsAndEvaluator) {
  check(kGood);
  check(kGood, {.task_type = "chief", .task_id = 0});
  check(kGood, {.task_type = "worker", .task_id = 1});
  check(kGood, {.task_type = "evaluator", .task_id = 0});  // need not be in the cluster
}

TEST(Roles, AreChecked) {
  EXPECT_ERROR(Code::InvalidArgument, "empty", check(ClusterSpec()));
  EXPECT_ERROR(Code::InvalidArgument, "job 'trainer'",
               check({{"ps", {"h:1"}}, {"worker", {"h:2"}}, {"trainer", {"h:3"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "more than one chief",
               check({{"ps", {"h:1"}}, {"worker", {"h:2"}}, {"chief", {"h:3", "h:4"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "more than one evaluator",
               check({{"ps", {"h:1"}}, {"worker", {"h:2"}}, {"evaluator", {"h:3", "h:4"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "no ps", check({{"worker", {"h:2"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "no worker", check({{"ps", {"h:2"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "'trainer'", check(kGood, {.task_type = "trainer"}));
  EXPECT_ERROR(Code::InvalidArgument, "the cluster has none",
               check({{"ps", {"h:1"}}, {"worker", {"h:2"}}}, {.task_type = "chief"}));
  EXPECT_ERROR(Code::InvalidArgument, "worker 2",
               check(kGood, {.task_type = "worker", .task_id = 2}));
}

TEST(ParameterServerMemory, IsEmptyOrPositive) {
  const SimpleClusterResolver resolver(kGood);
  for (const int64_t bad : {0, -1}) {
    EXPECT_ERROR(Code::InvalidArgument, "ps_memory_bytes must be at least 1",
                 ParameterServerStrategy(resolver, {.ps_memory_bytes = bad}));
  }
}

TEST(Roles, AMissingParameterServerIsNamed) {
  const ClusterSpec nobody = test::free_cluster(1, 1);
  const SimpleClusterResolver resolver(nobody);
  EXPECT_ERROR(
      Code::Unavailable, "/job:ps/replica:0/task:0",
      ParameterServerStrategy(resolver, {.connect_timeout = std::chrono::milliseconds(200)}));
}

}  // namespace
}  // namespace cohort
