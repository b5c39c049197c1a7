#include <gtest/gtest.h>

#include <map>

#include "cohort/cluster_resolver.h"
#include "support/expect_error.h"
#include "support/scoped_environment.h"
#include "topology/resolver_inputs.h"

namespace cohort {
namespace {

constexpr const char* kExample = R"({
  "cluster": {"worker": ["10.0.0.1:90", "10.0.0.2:90"], "ps": ["10.0.0.9:90"]},
  "task": {"type": "worker", "index": 1},
  "rpc_layer": "grpc"})";

ScopedEnvironment tf_config(std::optional<std::string> text) {
  return ScopedEnvironment({{"TF_CONFIG", std::move(text)}});
}

TEST(TFConfigClusterResolver, ReadsTheVariable) {
  const auto environment = tf_config(kExample);
  const TFConfigClusterResolver resolver;
  EXPECT_EQ(resolver.cluster_spec(),
            ClusterSpec({{"worker", {"10.0.0.1:90", "10.0.0.2:90"}}, {"ps", {"10.0.0.9:90"}}}));
  EXPECT_EQ(resolver.cluster_spec().jobs(), (std::vector<std::string>{"worker", "ps"}));
  EXPECT_EQ(resolver.task_type(), "worker");
  EXPECT_EQ(resolver.task_id(), 1);
  EXPECT_EQ(resolver.rpc_layer(), "grpc");
  EXPECT_EQ(resolver.environment(), "");
  EXPECT_EQ(resolver.master(), "grpc://10.0.0.2:90");
  EXPECT_EQ(resolver.master("ps", 0), "grpc://10.0.0.9:90");
  EXPECT_EQ(resolver.master("ps", 0, "x"), "x://10.0.0.9:90");
  EXPECT_EQ(resolver.master({}, 0), "grpc://10.0.0.1:90");
}

TEST(TFConfigClusterResolver, AMissingVariableIsAnEmptyCluster) {
  for (const std::optional<std::string>& text :
       {std::optional<std::string>(), std::optional<std::string>("{}")}) {
    const auto environment = tf_config(text);
    const TFConfigClusterResolver resolver;
    EXPECT_FALSE(resolver.cluster_spec());
    EXPECT_EQ(resolver.task_type(), std::nullopt);
    EXPECT_EQ(resolver.task_id(), std::nullopt);
    EXPECT_EQ(resolver.rpc_layer(), "");
    EXPECT_EQ(resolver.master(), "");
    EXPECT_EQ(resolver.master("worker", 0), "");
    EXPECT_TRUE(resolver.num_accelerators().empty());
  }
}

TEST(TFConfigClusterResolver, WhatIsGivenReplacesWhatStandsThere) {
  const auto environment = tf_config(kExample);
  TFConfigClusterResolver resolver(
      {.task_type = "ps", .task_id = 0, .rpc_layer = "http", .environment = "cloud"});
  EXPECT_EQ(resolver.task_type(), "ps");
  EXPECT_EQ(resolver.task_id(), 0);
  EXPECT_EQ(resolver.environment(), "cloud");
  EXPECT_EQ(resolver.master(), "http://10.0.0.9:90");
  resolver.set_task_type("worker");
  resolver.set_task_id(1);
  resolver.set_rpc_layer("");
  EXPECT_EQ(resolver.master(), "10.0.0.2:90");
}

TEST(TFConfigClusterResolver, LooksAtTheVariableEachTime) {
  auto environment = tf_config("{}");
  const TFConfigClusterResolver resolver;
  EXPECT_FALSE(resolver.cluster_spec());
  environment.set("TF_CONFIG", kExample);
  EXPECT_TRUE(resolver.cluster_spec());
}

TEST(TFConfigClusterResolver, TheSessionMasterIsTakenAsItIs) {
  const auto environment = tf_config(
      R"({"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "ps", "index": 0},
          "rpc_layer": "grpc", "session_master": "m:2222"})");
  const TFConfigClusterResolver resolver;
  EXPECT_EQ(resolver.master(), "m:2222");
  EXPECT_EQ(resolver.master("worker", 0, "x"), "m:2222");
}

TEST(TFConfigClusterResolver, AClusterOfOneTaskHasNoMaster) {
  const auto environment = tf_config(R"({"cluster": {"worker": ["w:1"]}, "rpc_layer": "grpc"})");
  EXPECT_EQ(TFConfigClusterResolver().master(), "");
}

TEST(TFConfigClusterResolver, InALargerClusterItAsksWhichTaskThisIs) {
  const auto environment = tf_config(R"({"cluster": {"worker": ["w:1", "v:1"]}})");
  const TFConfigClusterResolver resolver;
  EXPECT_EQ(resolver.master("worker", 1), "v:1");
  EXPECT_ERROR(Code::InvalidArgument, "the task type and index of this process in ClusterSpec(",
               resolver.master());
  EXPECT_ERROR(Code::InvalidArgument, "no task 2", resolver.master("worker", 2));
  EXPECT_ERROR(Code::InvalidArgument, "no job 'ps'", resolver.master("ps", 0));
}

// A machine that sees the GPUs of two tasks.
class WithGpus : public TFConfigClusterResolver {
 public:
  using TFConfigClusterResolver::TFConfigClusterResolver;

 protected:
  std::vector<std::string> visible_devices() const override {
    return {
        "/job:worker/replica:0/task:0/device:GPU:0", "/job:worker/replica:0/task:1/device:CPU:0",
        "/job:worker/replica:0/task:1/device:GPU:0", "/job:worker/replica:0/task:1/device:GPU:1"};
  }
};

TEST(TFConfigClusterResolver, CountsTheAcceleratorsOfItsOwnTaskUnlessAnotherIsGiven) {
  using Counts = std::map<std::string, int>;
  const auto environment = tf_config(kExample);
  EXPECT_EQ(WithGpus().num_accelerators(), (Counts{{"GPU", 2}}));
  EXPECT_EQ(WithGpus().num_accelerators("worker", 0), (Counts{{"GPU", 1}}));
  EXPECT_EQ(WithGpus().num_accelerators({}, 0), (Counts{{"GPU", 1}}));
  EXPECT_TRUE(WithGpus().num_accelerators("ps", 0).empty());
  EXPECT_EQ(WithGpus({.task_id = 0}).num_accelerators(), (Counts{{"GPU", 1}}));
}

TEST(TFConfigClusterResolver, ReadsSparseJobsAndNumbersAsTexts) {
  const auto environment = tf_config(
      R"({"cluster": {"worker": {"1": "b:1", "3": "d:1"}}, "task": {"type": "worker", "index": "3"}})");
  const TFConfigClusterResolver resolver;
  EXPECT_EQ(resolver.cluster_spec().task_indices("worker"), (std::vector<int>{1, 3}));
  EXPECT_EQ(resolver.task_id(), 3);
  EXPECT_EQ(resolver.master(), "d:1");
}

TEST(TFConfigClusterResolver, KeepsJobsAndKeysItDoesNotKnow) {
  const auto environment = tf_config(
      R"({"cluster": {"trainer": ["t:1"], "master": []}, "job": {}, "model_dir": "/m",
          "environment": "cloud", "task": {"type": "trainer", "index": 0, "trial": "7"}})");
  const TFConfigClusterResolver resolver;
  EXPECT_EQ(resolver.cluster_spec(), ClusterSpec({{"trainer", {"t:1"}}, {"master", {}}}));
  EXPECT_EQ(resolver.environment(), "cloud");
}

TEST(TFConfigClusterResolver, IsAnErrorOnlyWhenUsed) {
  const auto environment = tf_config("{");
  const TFConfigClusterResolver resolver;
  EXPECT_ERROR(Code::InvalidArgument, "is not JSON", resolver.cluster_spec());
  EXPECT_ERROR(Code::InvalidArgument, "is not JSON", resolver.task_type());
  EXPECT_ERROR(Code::InvalidArgument, "is not JSON", resolver.task_id());
  EXPECT_ERROR(Code::InvalidArgument, "is not JSON", resolver.master());
  EXPECT_ERROR(Code::InvalidArgument, "is not JSON", resolver.num_accelerators());
}

struct BadConfig {
  std::string text;
  const char* message;
};

std::string nested(size_t depth) {
  return R"({"x": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
}

const BadConfig kBadConfigs[] = {
    {"", "it is empty"},
    {"  \n ", "it is empty"},
    {"{", "ends too early"},
    {R"({"cluster": {"worker": ["a:1"]})", "line 1, column 32"},
    {"{\n\"cluster\":\n}", "line 3, column 1"},
    {R"({'cluster': {}})", "double quotes"},
    {R"({"cluster": {"worker": ['a:1']}})", "double quotes"},
    {R"({"cluster": {"worker": ["a:1",]}})", "remove the last comma"},
    {R"({"cluster": {},})", "remove the last comma"},
    {R"({"cluster": {} // all
        })",
     "no comments"},
    {R"({"cluster": {} # all
        })",
     "no comments"},
    {R"({"cluster" {}})", "expected ':'"},
    {R"({"cluster": {}} {})", "expected end of input"},
    {R"({"cluster": {}}})", "expected end of input"},
    {R"({cluster: {}})", "expected string literal"},
    {R"({"cluster": None})", "invalid literal"},
    {R"({"task": {"index": 01}})", "unexpected number literal"},
    {R"({"task": {"index": NaN}})", "invalid literal"},
    {R"({"task": {"index": 1e999}})", "number overflow"},
    {"worker", "invalid literal"},
    {"\xff\xfe{}", "is not JSON"},
    {"{\"cluster\": {\"w\xc3\": []}}", "ill-formed UTF-8"},
    {"{\"a\": \"\n\"}", "control character"},
    {nested(100), "nests deeper than 32"},
    {"[]", "TF_CONFIG is a list; expected an object"},
    {"null", "TF_CONFIG is null; expected an object"},
    {"3", "TF_CONFIG is a number; expected an object"},
    {R"("{}")", "TF_CONFIG is a text; expected an object"},
    {"true", "TF_CONFIG is true or false; expected an object"},
    {R"({"cluster": {}, "cluster": {}})", "the key 'cluster' twice"},
    {R"({"cluster": {"ps": ["a:1"], "ps": ["b:1"]}})", "the key 'ps' twice"},
    {R"({"Cluster": {}})", "unknown key 'Cluster'; did you mean 'cluster'?"},
    {R"({"clusters": {}})", "unknown key 'clusters'; did you mean 'cluster'?"},
    {R"({"clutser": {}})", "unknown key 'clutser'; did you mean 'cluster'?"},
    {R"({"tasks": {}})", "unknown key 'tasks'; did you mean 'task'?"},
    {R"({"rpc-layer": "grpc"})", "did you mean 'rpc_layer'?"},
    {R"({"sessionmaster": "m:1"})", "did you mean 'session_master'?"},
    {R"({"cluster": []})", "\"cluster\" is a list"},
    {R"({"cluster": "a:1"})", "\"cluster\" is a text"},
    {R"({"cluster": null})", "\"cluster\" is null"},
    {R"({"cluster": 2})", "\"cluster\" is a number"},
    {R"({"cluster": {"": ["a:1"]}})", "a job has an empty name"},
    {R"({"cluster": {"worker": "a:1"}})", "the tasks of job 'worker' are a text"},
    {R"({"cluster": {"worker": null}})", "the tasks of job 'worker' are null"},
    {R"({"cluster": {"worker": 2}})", "the tasks of job 'worker' are a number"},
    {R"({"cluster": {"worker": [2222]}})", "an address of job 'worker' is a number"},
    {R"({"cluster": {"worker": [null]}})", "an address of job 'worker' is null"},
    {R"({"cluster": {"worker": [["a:1"]]}})", "an address of job 'worker' is a list"},
    {R"({"cluster": {"worker": [""]}})", "an address of job 'worker' is empty"},
    {R"({"cluster": {"worker": ["a:1 "]}})", "'a:1 ' of job 'worker' has white space"},
    {R"({"cluster": {"worker": ["a:1, b:1"]}})", "'a:1, b:1' of job 'worker' has white space"},
    {R"({"cluster": {"worker": {"zero": "a:1"}}})", "'zero' is not a task index of job 'worker'"},
    {R"({"cluster": {"worker": {"-1": "a:1"}}})", "'-1' is not a task index"},
    {R"({"cluster": {"worker": {"1.5": "a:1"}}})", "'1.5' is not a task index"},
    {R"({"cluster": {"worker": {"1": "a:1", "01": "b:1"}}})",
     "task 1 of job 'worker' is given twice"},
    {R"({"cluster": {"worker": {"0": 7}}})", "an address of job 'worker' is a number"},
    {R"({"task": ["worker", 0]})", "\"task\" is a list"},
    {R"({"task": "worker"})", "\"task\" is a text"},
    {R"({"task": null})", "\"task\" is null"},
    {R"({"task": {"type": 3}})", "\"type\" in TF_CONFIG is a number"},
    {R"({"task": {"type": null}})", "\"type\" in TF_CONFIG is null"},
    {R"({"task": {"type": ""}})", "\"type\" is empty"},
    {R"({"task": {"Type": "worker"}})", "unknown key 'Type'; did you mean 'type'?"},
    {R"({"task": {"indx": 0}})", "unknown key 'indx'; did you mean 'index'?"},
    {R"({"task": {"index": -1}})", "\"index\" is -1;"},
    {R"({"task": {"index": 1.0}})", "\"index\" is 1.0;"},
    {R"({"task": {"index": true}})", "\"index\" is true;"},
    {R"({"task": {"index": null}})", "\"index\" is null;"},
    {R"({"task": {"index": "one"}})", "\"index\" is \"one\";"},
    {R"({"task": {"index": ""}})", "\"index\" is \"\";"},
    {R"({"task": {"index": [0]}})", "\"index\" is [0];"},
    {R"({"task": {"index": 99999999999}})", "\"index\" is 99999999999;"},
    {R"({"rpc_layer": 1})", "\"rpc_layer\" in TF_CONFIG is a number"},
    {R"({"session_master": []})", "\"session_master\" in TF_CONFIG is a list"},
    {R"({"environment": {}})", "\"environment\" in TF_CONFIG is an object"},
};

TEST(TFConfigText, EachBadTextHasAMessageOfItsOwn) {
  for (const BadConfig& bad : kBadConfigs) {
    SCOPED_TRACE(bad.text.substr(0, 80));
    EXPECT_ERROR(Code::InvalidArgument, bad.message, internal::parse_tf_config(bad.text));
    EXPECT_ERROR(Code::InvalidArgument, "TF_CONFIG", internal::parse_tf_config(bad.text));
  }
}

// At least 60 ways to be wrong are told apart by what is said about them.
TEST(TFConfigText, SaysDifferentThingsOfDifferentMistakes) {
  std::map<std::string, std::string> mistakes;  // by what was said
  for (const BadConfig& bad : kBadConfigs) {
    const Status status = error_of([&] { (void)internal::parse_tf_config(bad.text); });
    mistakes.emplace(status.message, bad.text);
  }
  EXPECT_GE(mistakes.size(), 60u);
}

TEST(TFConfigText, MessagesDoNotRepeatALongText) {
  const std::string text =
      R"({"cluster": {"worker": {")" + std::string(10'000, 'x') + R"(": "a:1"}}})";
  const Status status = error_of([&] { (void)internal::parse_tf_config(text); });
  EXPECT_EQ(status.code, Code::InvalidArgument);
  EXPECT_LT(status.message.size(), 400u);
}

}  // namespace
}  // namespace cohort
