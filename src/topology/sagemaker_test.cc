#include <gtest/gtest.h>

#include "cohort/scheduler_resolvers.h"
#include "support/expect_error.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

ScopedEnvironment sagemaker(std::optional<std::string> hosts, std::optional<std::string> current) {
  return ScopedEnvironment(
      {{"SM_HOSTS", std::move(hosts)}, {"SM_CURRENT_HOST", std::move(current)}});
}

TEST(SageMakerClusterResolver, SortsTheHostsAndFindsItsOwn) {
  const auto environment = sagemaker(R"(["algo-2", "algo-1", "algo-3"])", "algo-2");
  SageMakerClusterResolver resolver({.rpc_layer = "grpc"});
  EXPECT_EQ(resolver.cluster_spec(),
            ClusterSpec({{"worker", {"algo-1:2223", "algo-2:2223", "algo-3:2223"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.master(), "grpc://algo-2:2223");
  EXPECT_EQ(resolver.master("worker", 0, "x"), "x://algo-1:2223");
  EXPECT_EQ(resolver.environment(), "");
  resolver.set_task_id(2);
  EXPECT_EQ(resolver.master(), "grpc://algo-3:2223");
}

TEST(SageMakerClusterResolver, AloneItHasNoMaster) {
  const auto environment = sagemaker(R"(["algo-1"])", "algo-1");
  EXPECT_EQ(SageMakerClusterResolver({.port = 9}).cluster_spec(),
            ClusterSpec({{"worker", {"algo-1:9"}}}));
  EXPECT_EQ(SageMakerClusterResolver().master(), "");
}

TEST(SageMakerClusterResolver, IsEmptyOnAHostThatIsNotListed) {
  const auto environment = sagemaker(R"(["algo-1", "algo-2"])", "algo-7");
  const SageMakerClusterResolver resolver;
  EXPECT_FALSE(resolver.cluster_spec());
  EXPECT_EQ(resolver.task_type(), std::nullopt);
  EXPECT_EQ(resolver.master(), "");
}

TEST(SageMakerClusterResolver, IsEmptyWhereNoHostIsListed) {
  const auto environment = sagemaker("[]", "algo-1");
  const SageMakerClusterResolver resolver;
  EXPECT_FALSE(resolver.cluster_spec());
  EXPECT_EQ(resolver.task_id(), std::nullopt);
  EXPECT_EQ(resolver.master(), "");
}

TEST(SageMakerClusterResolver, RefusesBadVariables) {
  const std::pair<std::optional<std::string>, const char*> kCases[] = {
      {std::nullopt, "SM_HOSTS is not set"},
      {"", "it is empty"},
      {"[", "is not JSON"},
      {"{}", "expected a list of texts"},
      {"[1]", "expected a list of texts"},
      {R"(["algo-1", ""])", "whose host 1 has no name"},
      {R"("algo-1")", "expected a list of texts"},
  };
  for (const auto& [hosts, message] : kCases) {
    const auto environment = sagemaker(hosts, "algo-1");
    EXPECT_ERROR(Code::InvalidArgument, message, SageMakerClusterResolver().cluster_spec());
  }
  const auto environment = sagemaker("[]", std::nullopt);
  EXPECT_ERROR(Code::InvalidArgument, "SM_CURRENT_HOST is not set",
               SageMakerClusterResolver().task_id());
  EXPECT_ERROR(Code::InvalidArgument, "[SageMaker] port", SageMakerClusterResolver({.port = 0}));
}

}  // namespace
}  // namespace cohort
