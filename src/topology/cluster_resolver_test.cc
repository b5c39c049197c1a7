#include "cohort/cluster_resolver.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort {
namespace {

using Counts = std::map<std::string, int>;

const ClusterSpec& cluster() {
  static const ClusterSpec spec{{"ps", {"p:1"}}, {"worker", {"w0:1", "w1:1"}}};
  return spec;
}

// A resolver as a user writes one.
class GrowingResolver : public ClusterResolver {
 public:
  ClusterSpec cluster_spec() const override {
    ++calls_;
    TaskList tasks;
    for (int i = 0; i < calls_; ++i) tasks.push_back("h" + std::to_string(i) + ":1");
    return {{"worker", tasks}};
  }

 protected:
  std::vector<std::string> visible_devices() const override {
    return {
        "/job:worker/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:GPU:0",
        "/job:worker/replica:0/task:0/device:GPU:1", "/job:worker/replica:0/task:1/device:GPU:0",
        "/job:worker/replica:0/task:1/device:TPU:0"};
  }

 private:
  mutable int calls_ = 0;
};

TEST(ClusterResolver, LooksAgainAtEachCall) {
  const GrowingResolver resolver;
  EXPECT_EQ(resolver.cluster_spec().num_tasks("worker"), 1);
  EXPECT_EQ(resolver.cluster_spec().num_tasks("worker"), 2);
}

TEST(ClusterResolver, OneOfAUsersOwnNeedsOnlyTheCluster) {
  GrowingResolver resolver;
  EXPECT_EQ(resolver.task_type(), std::nullopt);
  EXPECT_EQ(resolver.task_id(), std::nullopt);
  EXPECT_EQ(resolver.environment(), "");
  EXPECT_EQ(resolver.rpc_layer(), "");
  EXPECT_EQ(resolver.master(), "");
  EXPECT_EQ(resolver.master("worker", 0), "h0:1");
  resolver.set_task_type("worker");
  resolver.set_task_id(1);
  EXPECT_EQ(resolver.master(), "h1:1");
  EXPECT_EQ(resolver.master({}, 0), "h0:1");
  resolver.set_rpc_layer("grpc");
  EXPECT_EQ(resolver.master(), "grpc://h1:1");
  EXPECT_EQ(resolver.master({}, {}, "x"), "x://h1:1");
  EXPECT_EQ(resolver.master({}, {}, ""), "h1:1");
}

TEST(ClusterResolver, CountsDevicesByTypeButNoCpus) {
  const GrowingResolver resolver;
  EXPECT_EQ(resolver.num_accelerators(), (Counts{{"GPU", 3}, {"TPU", 1}}));
  EXPECT_EQ(resolver.num_accelerators("worker", 1), (Counts{{"GPU", 1}, {"TPU", 1}}));
  EXPECT_EQ(resolver.num_accelerators("worker"), (Counts{{"GPU", 3}, {"TPU", 1}}));
  EXPECT_TRUE(resolver.num_accelerators("ps", 0).empty());
}

TEST(SimpleClusterResolver, SaysWhatItWasGiven) {
  SimpleClusterResolver resolver(cluster(), {.master = "m:1",
                                             .task_type = "worker",
                                             .task_id = 1,
                                             .environment = "cloud",
                                             .num_accelerators = {{"GPU", 4}},
                                             .rpc_layer = "grpc"});
  EXPECT_EQ(resolver.cluster_spec(), cluster());
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.environment(), "cloud");
  EXPECT_EQ(resolver.rpc_layer(), "grpc");
  EXPECT_EQ(resolver.num_accelerators("ps", 0), (Counts{{"GPU", 4}}));
  resolver.set_task_type("ps");
  resolver.set_task_id(0);
  EXPECT_EQ(resolver.task_type(), "ps");
  EXPECT_EQ(resolver.task_id(), 0);
}

TEST(SimpleClusterResolver, TheMasterIsTheOneGivenUnlessBothArgumentsNameATask) {
  const SimpleClusterResolver resolver(
      cluster(), {.master = "m:1", .task_type = "worker", .task_id = 1, .rpc_layer = "grpc"});
  EXPECT_EQ(resolver.master(), "grpc://m:1");
  EXPECT_EQ(resolver.master("worker"), "grpc://m:1");
  EXPECT_EQ(resolver.master({}, 0), "grpc://m:1");
  EXPECT_EQ(resolver.master({}, {}, "x"), "x://m:1");
  EXPECT_EQ(resolver.master("ps", 0), "grpc://p:1");
  EXPECT_EQ(resolver.master("ps", 0, "x"), "x://p:1");
  EXPECT_ERROR(Code::InvalidArgument, "no task 3", resolver.master("ps", 3));
}

TEST(SimpleClusterResolver, WithoutOptionsKnowsOnlyTheCluster) {
  const SimpleClusterResolver resolver(cluster());
  EXPECT_EQ(resolver.task_type(), std::nullopt);
  EXPECT_EQ(resolver.task_id(), std::nullopt);
  EXPECT_EQ(resolver.master(), "");
  EXPECT_EQ(resolver.master("worker", 1), "w1:1");
  EXPECT_EQ(resolver.environment(), "");
  EXPECT_TRUE(resolver.num_accelerators().empty());
}

// The program P9 names one task by what the resolver says.
TEST(SimpleClusterResolver, ItsTaskMakesAServerDefinition) {
  const SimpleClusterResolver resolver(cluster(), {.task_type = "worker", .task_id = 0});
  EXPECT_TRUE(resolver.task_type() == "worker" || resolver.task_type() == "ps");
  const ServerDef def =
      make_server_def(resolver.cluster_spec(),
                      {.job_name = resolver.task_type(), .task_index = resolver.task_id()});
  EXPECT_EQ(def.address(), "w0:1");
}

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
