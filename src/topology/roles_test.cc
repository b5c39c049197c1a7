#include <gtest/gtest.h>

#include "cohort/cluster.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

const ClusterSpec& with_chief() {
  static const ClusterSpec spec{{"worker", {"w0:1", "w1:1"}}, {"chief", {"c:1"}}, {"ps", {"p:1"}}};
  return spec;
}
const ClusterSpec& without_chief() {
  static const ClusterSpec spec{{"worker", {"w0:1", "w1:1"}}, {"evaluator", {"e:1"}}};
  return spec;
}

TEST(Roles, TheChiefIsTheChiefTaskOrWorkerZero) {
  EXPECT_TRUE(is_chief(with_chief(), "chief", 0));
  EXPECT_FALSE(is_chief(with_chief(), "worker", 0));
  EXPECT_FALSE(is_chief(with_chief(), "ps", 0));
  EXPECT_TRUE(is_chief(without_chief(), "worker", 0));
  EXPECT_FALSE(is_chief(without_chief(), "worker", 1));
  EXPECT_TRUE(is_chief(without_chief(), "evaluator", 0));
  EXPECT_TRUE(is_chief(with_chief(), "evaluator", 0));  // need not be in the cluster
}

TEST(Roles, WorkersAreCountedWithTheChiefAndEvaluatorsApart) {
  EXPECT_EQ(worker_count(with_chief(), "chief", 0), 3);
  EXPECT_EQ(worker_count(with_chief(), "worker", 1), 3);
  EXPECT_EQ(worker_count(without_chief(), "worker", 0), 2);
  EXPECT_EQ(worker_count(without_chief(), "evaluator", 0), 1);
  EXPECT_EQ(worker_count(with_chief(), "evaluator", 0), 1);
  EXPECT_ERROR(Code::InvalidArgument, "ps", worker_count(with_chief(), "ps", 0));
}

TEST(Roles, WorkersFollowTheChief) {
  EXPECT_EQ(id_in_cluster(with_chief(), "chief", 0), 0);
  EXPECT_EQ(id_in_cluster(with_chief(), "worker", 0), 1);
  EXPECT_EQ(id_in_cluster(with_chief(), "worker", 1), 2);
  EXPECT_EQ(id_in_cluster(without_chief(), "worker", 1), 1);
  EXPECT_EQ(id_in_cluster(without_chief(), "evaluator", 0), 0);
  EXPECT_EQ(id_in_cluster({{"worker", {{2, "a:1"}, {5, "b:1"}}}}, "worker", 5), 1);
  EXPECT_ERROR(Code::InvalidArgument, "ps", id_in_cluster(with_chief(), "ps", 0));
}

TEST(Roles, MasterIsTheOldNameOfChief) {
  const ClusterSpec old{{"master", {"m:1"}}, {"worker", {"w:1"}}};
  EXPECT_TRUE(is_chief(old, "master", 0));
  EXPECT_FALSE(is_chief(old, "worker", 0));
  EXPECT_EQ(worker_count(old, "worker", 0), 2);
  EXPECT_EQ(id_in_cluster(old, "worker", 0), 1);
}

TEST(Roles, TakeMapsAndDefinitions) {
  EXPECT_TRUE(is_chief(std::map<std::string, TaskList>{{"worker", {"w:1"}}}, "worker", 0));
  EXPECT_TRUE(is_chief(ClusterDef{{{"worker", {{0, "w:1"}}}}}, "worker", 0));
}

struct BadTask {
  ClusterSpec cluster;
  std::optional<std::string> type;
  std::optional<int> id;
  const char* message;
};

TEST(Roles, EveryFunctionRefusesATaskThatCannotBe) {
  const BadTask kCases[] = {
      {with_chief(), {}, 0, "type of this task is not known"},
      {with_chief(), "", 0, "type of this task is not known"},
      {with_chief(), "worker", {}, "index of this 'worker' task is not known"},
      {with_chief(), "worker", 2, "number 2 of job 'worker', which has 2 tasks"},
      {with_chief(), "worker", -1, "number -1"},
      {with_chief(), "chief", 1, "number 1 of job 'chief'"},
      {with_chief(), "wroker", 0, "did you mean 'worker'?"},
      {with_chief(), "boss", 0, "'boss' is not a role"},
      {without_chief(), "ps", 0, "this task is a 'ps', but the cluster has only"},
      {without_chief(), "evaluator", 1, "number 1 of job 'evaluator'"},
      {with_chief(), "evaluator", -1, "number -1"},
      {ClusterSpec(), "worker", 0, "the cluster has only none"},
      {{{"worker", {"w:1"}}, {"trainer", {"t:1"}}}, "worker", 0, "job 'trainer' is not a role"},
      {{{"chief", {"a:1", "b:1"}}}, "chief", 0, "2 chief tasks"},
      {{{"chief", {"a:1"}}, {"master", {"b:1"}}}, "chief", 0, "2 chief tasks"},
      {{{"evaluator", {"a:1", "b:1"}}, {"worker", {"w:1"}}}, "worker", 0, "2 evaluator tasks"},
  };
  for (const BadTask& bad : kCases) {
    SCOPED_TRACE(bad.message);
    EXPECT_ERROR(Code::InvalidArgument, bad.message, validate_task(bad.cluster, bad.type, bad.id));
    EXPECT_ERROR(Code::InvalidArgument, bad.message, is_chief(bad.cluster, bad.type, bad.id));
    EXPECT_ERROR(Code::InvalidArgument, bad.message, worker_count(bad.cluster, bad.type, bad.id));
    EXPECT_ERROR(Code::InvalidArgument, bad.message, id_in_cluster(bad.cluster, bad.type, bad.id));
  }
}

}  // namespace
}  // namespace cohort
