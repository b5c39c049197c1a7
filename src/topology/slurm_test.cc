#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "cohort/scheduler_resolvers.h"
#include "support/expect_error.h"
#include "support/scoped_environment.h"
#include "topology/resolver_inputs.h"

namespace cohort {
namespace {

using Variables = ScopedEnvironment::Variables;
using Jobs = std::map<std::string, int>;

// What srun sets, as recorded on a cluster; each test changes what it is about.
Variables step(const std::string& rank, const std::string& tasks, const std::string& nodes,
               const std::string& counts) {
  return {{"SLURM_PROCID", rank},         {"SLURM_STEP_NUM_TASKS", tasks},
          {"SLURM_STEP_NODELIST", nodes}, {"SLURM_STEP_TASKS_PER_NODE", counts},
          {"SLURM_JOB_ID", std::nullopt}, {"CUDA_VISIBLE_DEVICES", std::nullopt}};
}

std::string visible_gpus() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? "unset" : value;
}

TEST(SlurmClusterResolver, MakesOneWorkerPerTask) {
  const ScopedEnvironment environment(step("3", "5", "t02n[13,41,43,44],t03n09", "1(x5)"));
  const SlurmClusterResolver resolver;
  EXPECT_EQ(
      resolver.cluster_spec(),
      ClusterSpec({{"worker",
                    {"t02n13:8888", "t02n41:8888", "t02n43:8888", "t02n44:8888", "t03n09:8888"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 3);
  EXPECT_EQ(resolver.master(), "grpc://t02n44:8888");
  EXPECT_EQ(resolver.master("worker", 0), "grpc://t02n13:8888");
  EXPECT_EQ(resolver.master("worker", 0, "x"), "x://t02n13:8888");
}

TEST(SlurmClusterResolver, KnowsItsTaskOnlyAfterTheClusterWasAskedFor) {
  const ScopedEnvironment environment(step("0", "1", "a", "1"));
  const SlurmClusterResolver resolver;
  EXPECT_EQ(resolver.task_type(), std::nullopt);
  EXPECT_EQ(resolver.task_id(), std::nullopt);
  EXPECT_EQ(resolver.master(), "");
  (void)resolver.cluster_spec();
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 0);
}

TEST(SlurmClusterResolver, DealsTasksOfSortedHostsToSortedJobs) {
  const ScopedEnvironment environment(step("2", "4", "b,a", "2(x2)"));
  const SlurmClusterResolver resolver(
      {.jobs = {{"worker", 3}, {"ps", 1}}, .gpus_per_node = 4, .auto_set_gpu = true});
  const ClusterSpec spec = resolver.cluster_spec();
  EXPECT_EQ(spec, ClusterSpec({{"ps", {"a:8888"}}, {"worker", {"a:8889", "b:8888", "b:8889"}}}));
  EXPECT_EQ(spec.jobs(), (std::vector<std::string>{"ps", "worker"}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(visible_gpus(), "0,1");
  EXPECT_EQ(resolver.num_accelerators(), (Jobs{{"GPU", 2}}));
}

TEST(SlurmClusterResolver, EveryRankFindsItsPlaceAndItsGpus) {
  const struct {
    const char* rank;
    const char* type;
    int id;
    const char* gpus;
  } kCases[] = {{"0", "ps", 0, "0,1"},
                {"1", "worker", 0, "2,3"},
                {"2", "worker", 1, "0,1"},
                {"3", "worker", 2, "2,3"}};
  for (const auto& place : kCases) {
    const ScopedEnvironment environment(step(place.rank, "4", "b,a", "2(x2)"));
    const SlurmClusterResolver resolver(
        {.jobs = {{"worker", 3}, {"ps", 1}}, .gpus_per_node = 4, .auto_set_gpu = true});
    (void)resolver.cluster_spec();
    EXPECT_EQ(resolver.task_type(), place.type);
    EXPECT_EQ(resolver.task_id(), place.id);
    EXPECT_EQ(visible_gpus(), place.gpus);
  }
}

TEST(SlurmClusterResolver, UnevenHostsHaveAsManyPortsAsTasks) {
  const ScopedEnvironment environment(step("0", "7", "n[1-4]", "2(x3),1"));
  const SlurmClusterResolver resolver({.port_base = 13000, .rpc_layer = ""});
  EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"worker",
                                                   {"n1:13000", "n1:13001", "n2:13000", "n2:13001",
                                                    "n3:13000", "n3:13001", "n4:13000"}}}));
  EXPECT_EQ(resolver.master(), "n1:13000");
}

TEST(SlurmClusterResolver, TasksPerNodeMayBeANumberOrAMap) {
  const ScopedEnvironment environment({{"SLURM_PROCID", "1"},
                                       {"SLURM_STEP_NUM_TASKS", "4"},
                                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                                       {"SLURM_STEP_TASKS_PER_NODE", std::nullopt},
                                       {"SLURM_JOB_ID", std::nullopt},
                                       {"CUDA_VISIBLE_DEVICES", std::nullopt}});
  const ClusterSpec two_each{{"worker", {"n1:8888", "n1:8889", "n2:8888", "n2:8889"}}};
  EXPECT_EQ(SlurmClusterResolver({.tasks_per_node = 2}).cluster_spec(), two_each);
  EXPECT_EQ(SlurmClusterResolver({.tasks_per_node = Jobs{{"x", 3}, {"m", 1}}}).cluster_spec(),
            ClusterSpec({{"worker", {"m:8888", "x:8888", "x:8889", "x:8890"}}}));
}

TEST(SlurmClusterResolver, WorksWithoutGpus) {
  const ScopedEnvironment environment(step("0", "2", "a", "2"));
  const SlurmClusterResolver resolver({.gpus_per_node = 0});
  (void)resolver.cluster_spec();
  EXPECT_EQ(resolver.num_accelerators(), (Jobs{{"GPU", 0}}));
  EXPECT_EQ(visible_gpus(), "unset");
}

TEST(SlurmClusterResolver, TheGpusThatAreNamedAreTheNodes) {
  Variables variables = step("1", "2", "a", "2");
  variables["CUDA_VISIBLE_DEVICES"] = "4,5,6,7";
  const ScopedEnvironment environment(variables);
  const SlurmClusterResolver resolver({.auto_set_gpu = true});
  EXPECT_EQ(resolver.num_accelerators(), (Jobs{{"GPU", 2}}));
  EXPECT_EQ(visible_gpus(), "4,5,6,7");
  (void)resolver.cluster_spec();
  (void)resolver.cluster_spec();
  EXPECT_EQ(visible_gpus(), "6,7");
}

TEST(SlurmClusterResolver, LeavesTheGpusAloneUnlessAskedNotTo) {
  const ScopedEnvironment environment(step("0", "2", "a", "2"));
  const SlurmClusterResolver resolver({.gpus_per_node = 4, .gpus_per_task = 1});
  (void)resolver.cluster_spec();
  EXPECT_EQ(visible_gpus(), "unset");
  EXPECT_EQ(resolver.num_accelerators(), (Jobs{{"GPU", 1}}));
}

TEST(SlurmClusterResolver, SaysWhichVariableIsMissing) {
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST",
                           "SLURM_STEP_TASKS_PER_NODE"}) {
    Variables variables = step("0", "1", "a", "1");
    variables[name] = std::nullopt;
    const ScopedEnvironment environment(variables);
    EXPECT_ERROR(Code::FailedPrecondition, name, SlurmClusterResolver());
  }
}

TEST(SlurmClusterResolver, AsksForNothingThatItWasGiven) {
  const ScopedEnvironment environment({{"SLURM_PROCID", "2"},
                                       {"SLURM_STEP_NUM_TASKS", std::nullopt},
                                       {"SLURM_STEP_NODELIST", std::nullopt},
                                       {"SLURM_STEP_TASKS_PER_NODE", std::nullopt},
                                       {"SLURM_JOB_ID", std::nullopt},
                                       {"CUDA_VISIBLE_DEVICES", std::nullopt}});
  const SlurmClusterResolver resolver({.jobs = {{"ps", 1}, {"worker", 2}},
                                       .port_base = 100,
                                       .gpus_per_node = 0,
                                       .tasks_per_node = Jobs{{"b", 1}, {"a", 2}},
                                       .rpc_layer = ""});
  EXPECT_EQ(resolver.cluster_spec(),
            ClusterSpec({{"ps", {"a:100"}}, {"worker", {"a:101", "b:100"}}}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.master(), "b:100");
  EXPECT_EQ(resolver.num_accelerators(), (Jobs{{"GPU", 0}}));
  EXPECT_EQ(visible_gpus(), "unset");
}

struct BadStep {
  Variables variables;
  SlurmOptions options;
  Code code;
  const char* message;
};

TEST(SlurmClusterResolver, RefusesWhatDoesNotFitTogether) {
  const BadStep kCases[] = {
      {step("x", "1", "a", "1"), {}, Code::InvalidArgument, "SLURM_PROCID is 'x'"},
      {step("-1", "1", "a", "1"), {}, Code::InvalidArgument, "SLURM_PROCID is '-1'"},
      {step("0", "one", "a", "1"), {}, Code::InvalidArgument, "SLURM_STEP_NUM_TASKS is 'one'"},
      {step("1", "1", "a", "1"), {}, Code::FailedPrecondition, "process 1, but there are only 1"},
      {step("0", "2", "a", "1"), {}, Code::FailedPrecondition, "need 2 tasks, but 1 were started"},
      {step("0", "1", "a[", "1"), {}, Code::InvalidArgument, "a ']' is missing"},
      {step("0", "1", "", "1"), {}, Code::InvalidArgument, "a name is empty"},
      {step("0", "1", "a", "1(x"), {}, Code::InvalidArgument, "2(x3),1"},
      {step("0", "2", "a,b", "2"), {}, Code::InvalidArgument, "2 hosts, but"},
      {step("0", "2", "a", "1(x2)"), {}, Code::InvalidArgument, "counts for 2"},
      {step("0", "2", "a,b", "1(x2)"),
       {.jobs = {{"worker", 3}}},
       Code::FailedPrecondition,
       "need 3 tasks, but 2 were started"},
      {step("0", "2", "a,b", "1(x2)"),
       {.jobs = {{"worker", 3}, {"ps", -1}}},
       Code::InvalidArgument,
       "job 'ps' cannot have -1"},
      {step("0", "2", "a", "2"),
       {.gpus_per_node = 3, .gpus_per_task = 2},
       Code::FailedPrecondition,
       "gpus_per_node is 3"},
      {step("0", "1", "a", "1"), {.gpus_per_node = -1}, Code::InvalidArgument, "gpus_per_node"},
      {step("0", "1", "a", "1"), {.gpus_per_task = -1}, Code::InvalidArgument, "gpus_per_task"},
      {step("0", "2", "a", "2"), {.port_base = 65535}, Code::InvalidArgument, "port 65535 + 1"},
      {step("0", "1", "a", "1"), {.tasks_per_node = 0}, Code::InvalidArgument, "0 tasks on host"},
      {step("0", "1", "a", "1"), {.tasks_per_node = Jobs{}}, Code::InvalidArgument, "on 0 hosts"},
      {step("0", "1", "n[1-50000]", "50(x50000)"), {}, Code::InvalidArgument, "2500000 tasks"},
  };
  for (const BadStep& bad : kCases) {
    SCOPED_TRACE(bad.message);
    const ScopedEnvironment environment(bad.variables);
    EXPECT_ERROR(bad.code, bad.message, SlurmClusterResolver(bad.options));
  }
}

}  // namespace
}  // namespace cohort

namespace cohort::internal {
namespace {

using Hosts = std::vector<std::string>;

TEST(NodeList, ExpandsRangesInOrder) {
  const std::pair<const char*, Hosts> kCases[] = {
      {"a[3-5],b7,c[1,4-5]", {"a3", "a4", "a5", "b7", "c1", "c4", "c5"}},
      {"b,a", {"b", "a"}},
      {"n1,n1", {"n1", "n1"}},
      {"localhost", {"localhost"}},
      {"n[08-10]", {"n08", "n09", "n10"}},
      {"n[098-101]", {"n098", "n099", "n100", "n101"}},
      {"n[8-11]", {"n8", "n9", "n10", "n11"}},
      {"n[00-01,7,007]", {"n00", "n01", "n7", "n007"}},
      {"n[08-100]",
       [] {
         Hosts all = {"n08", "n09"};
         for (int i = 10; i <= 100; ++i) all.push_back("n" + std::to_string(i));
         return all;
       }()},
      {"n[5-5]", {"n5"}},
      {"n[5,3,5]", {"n5", "n3", "n5"}},
      {"r[1-2]n[01-02]", {"r1n01", "r1n02", "r2n01", "r2n02"}},
      {"n[1-2]-ib0.site", {"n1-ib0.site", "n2-ib0.site"}},
      {"gpu-node_1.example.org", {"gpu-node_1.example.org"}},
  };
  for (const auto& [text, hosts] : kCases) EXPECT_EQ(parse_node_list(text), hosts) << text;
}

TEST(NodeList, WhatCannotBeReadSaysWhy) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "a name is empty"},
      {"a,", "a name is empty"},
      {",a", "a name is empty"},
      {"a,,b", "a name is empty"},
      {"a[1-3", "a ']' is missing"},
      {"a1-3]", "a ']' too many"},
      {"a[1-[2]]", "a '[' too many"},
      {"a[1]]", "a ']' too many"},
      {"a[]", "'' is not a number"},
      {"a[1,]", "'' is not a number"},
      {"a[,1]", "'' is not a number"},
      {"a[-3]", "'' is not a number"},
      {"a[1-]", "'' is not a number"},
      {"a[1-2-3]", "'2-3' is not a number"},
      {"a[x]", "'x' is not a number"},
      {"a[1-y]", "'y' is not a number"},
      {"a[0x1]", "'0x1' is not a number"},
      {"a[ 1]", "' 1' is not a number"},
      {"a[+1]", "'+1' is not a number"},
      {"a[5-3]", "the range 5-3 goes down"},
      {"a[9-010]", "different leading zeros"},
      {"a[1-999999999999999999]", "more than 100,000 hosts"},
      {"a[0-9999999999999999999999]", "is not a number"},
      {"a[0-60000],b[0-60000]", "more than 100,000 hosts"},
      {"a[0-999]b[0-999]", "more than 100,000 hosts"},
      {"[1-3]", "begins with a bracket"},
      {"a b", "'a b' is not part of a name"},
      {"a;rm", "is not part of a name"},
      {"a:1", "is not part of a name"},
  };
  for (const auto& [text, why] : kCases) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(Code::InvalidArgument, why, parse_node_list(text));
    EXPECT_ERROR(Code::InvalidArgument, "[Slurm] the host list", parse_node_list(text));
  }
}

TEST(NodeList, SaysDifferentThingsOfDifferentMistakes) {
  std::set<std::string> said;
  for (const char* text : {"", "a[1-3", "a1-3]", "a[1-[2]]", "a[]", "a[x]", "a[1-2-3]", "a[5-3]",
                           "a[9-010]", "a[0-60000],b[0-60000]", "[1-3]", "a b"}) {
    const std::string message = error_of([&] { (void)parse_node_list(text); }).message;
    const size_t reason = message.find("cannot be read: ");
    ASSERT_NE(reason, std::string::npos) << message;
    EXPECT_TRUE(said.insert(message.substr(reason)).second) << message;
  }
}

TEST(TaskCounts, RepeatsWhatStandsInParentheses) {
  EXPECT_EQ(parse_task_counts("2(x3),1"), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(parse_task_counts("4"), (std::vector<int>{4}));
  EXPECT_EQ(parse_task_counts("1,2(x1),3"), (std::vector<int>{1, 2, 3}));
}

TEST(TaskCounts, WhatCannotBeReadIsQuoted) {
  for (const char* text : {"", ",", "2,", "x", "2(3)", "2(x)", "2(x3", "2x3)", "2(x-1)", "-2", "0",
                           "2(x0)", "2(x3)1", "1 ,2", "(x2)", "2(x999999999)", "99999999999"}) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(Code::InvalidArgument, "expected a form like 2(x3),1", parse_task_counts(text));
  }
}

RC_GTEST_PROP(NodeListProperty, ReadsBackAnyRange, ()) {
  const int low = *rc::gen::inRange(0, 2000);
  const int count = *rc::gen::inRange(1, 50);
  const int width = *rc::gen::inRange(1, 6);
  const auto padded = [&](int number) {
    std::string digits = std::to_string(number);
    return std::string(std::max<size_t>(digits.size(), width) - digits.size(), '0') + digits;
  };
  Hosts expected;
  for (int i = low; i < low + count; ++i) expected.push_back("n" + padded(i));
  RC_ASSERT(parse_node_list("n[" + padded(low) + "-" + padded(low + count - 1) + "]") == expected);
}

}  // namespace
}  // namespace cohort::internal
