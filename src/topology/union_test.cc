#include <gtest/gtest.h>

#include "cohort/cluster_resolver.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

SimpleClusterResolver of(ClusterSpec spec) { return SimpleClusterResolver(std::move(spec)); }

struct Merge {
  const char* what;
  ClusterSpec first, second, together;
};

TEST(UnionClusterResolver, ConcatenatesListsAndUnitesMaps) {
  const Merge kCases[] = {
      {"two lists", {{"w", {"x", "y"}}}, {{"w", {"z"}}}, {{"w", {"x", "y", "z"}}}},
      {"two maps", {{"w", {{4, "x"}}}}, {{"w", {{1, "y"}}}}, {{"w", {{1, "y"}, {4, "x"}}}}},
      {"list and map", {{"w", {"x", "y"}}}, {{"w", {{2, "z"}}}}, {{"w", {"x", "y", "z"}}}},
      {"other jobs", {{"w", {"x"}}}, {{"p", {{3, "q"}}}}, {{"w", {"x"}}, {"p", {{3, "q"}}}}},
      {"same address", {{"w", {"x"}}}, {{"w", {"x"}}}, {{"w", {"x", "x"}}}},
      {"no tasks", {{"w", {}}}, {{"w", {"x"}}}, {{"w", {"x"}}}},
      {"no jobs", {}, {{"w", {"x"}}}, {{"w", {"x"}}}},
  };
  for (const Merge& merge : kCases) {
    SCOPED_TRACE(merge.what);
    const UnionClusterResolver both(of(merge.first), of(merge.second));
    EXPECT_EQ(both.cluster_spec(), merge.together) << both.cluster_spec();
  }
}

TEST(UnionClusterResolver, AnIndexThatComesTwiceIsAnError) {
  const UnionClusterResolver both(of({{"w", {"x", "y"}}}), of({{"w", {{1, "z"}}}}));
  EXPECT_ERROR(Code::AlreadyExists, "task 1 of job 'w' is 'y' in one cluster and 'z' in another",
               both.cluster_spec());
}

TEST(UnionClusterResolver, KeepsTheOrderOfResolversAndJobs) {
  const UnionClusterResolver all(of({{"w", {"1"}}}), of({{"p", {"2"}}, {"w", {"3"}}}),
                                 of({{"w", {"4"}}}));
  EXPECT_EQ(all.cluster_spec().jobs(), (std::vector<std::string>{"w", "p"}));
  EXPECT_EQ(all.cluster_spec(), ClusterSpec({{"w", {"1", "3", "4"}}, {"p", {"2"}}}));
}

TEST(UnionClusterResolver, SaysWhatTheFirstResolverSays) {
  const auto first = std::make_shared<SimpleClusterResolver>(
      ClusterSpec{{"w", {"x:1"}}}, SimpleResolverOptions{.master = "m:1",
                                                         .task_type = "w",
                                                         .task_id = 0,
                                                         .environment = "cloud",
                                                         .num_accelerators = {{"GPU", 2}},
                                                         .rpc_layer = "grpc"});
  const auto second = std::make_shared<SimpleClusterResolver>(
      ClusterSpec{{"w", {"y:1"}}}, SimpleResolverOptions{.task_type = "q", .rpc_layer = "other"});
  UnionClusterResolver both({first, second});
  EXPECT_EQ(both.task_type(), "w");
  EXPECT_EQ(both.task_id(), 0);
  EXPECT_EQ(both.rpc_layer(), "grpc");
  EXPECT_EQ(both.environment(), "cloud");
  EXPECT_EQ(both.num_accelerators(), (std::map<std::string, int>{{"GPU", 2}}));
  EXPECT_EQ(both.master(), "grpc://m:1");
  EXPECT_EQ(both.master("w", 1), "grpc://y:1");
  EXPECT_EQ(both.master("w", 1, "x"), "x://y:1");
  both.set_task_type("p");
  both.set_task_id(5);
  both.set_rpc_layer("http");
  EXPECT_EQ(both.task_type(), "p");
  EXPECT_EQ(both.task_id(), 5);
  EXPECT_EQ(both.rpc_layer(), "http");
  const UnionClusterResolver given({first}, {.rpc_layer = "z", .task_type = "w", .task_id = 3});
  EXPECT_EQ(given.task_id(), 3);
  EXPECT_EQ(given.rpc_layer(), "z");
}

TEST(UnionClusterResolver, NeedsResolvers) {
  EXPECT_ERROR(Code::InvalidArgument, "at least one",
               UnionClusterResolver(UnionClusterResolver::Resolvers{}));
  EXPECT_ERROR(Code::InvalidArgument, "null",
               UnionClusterResolver(UnionClusterResolver::Resolvers{nullptr}));
  EXPECT_EQ(UnionClusterResolver(of({{"w", {"x"}}})).cluster_spec(), ClusterSpec({{"w", {"x"}}}));
}

}  // namespace
}  // namespace cohort
