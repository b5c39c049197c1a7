#include "cohort/cluster.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "support/expect_error.h"

namespace cohort {
namespace {

using Holes = std::vector<std::optional<std::string>>;

ClusterSpec mixed() { return {{"a", {"h0:1"}}, {"b", {{2, "h2:1"}, {5, "h5:1"}}}}; }

TEST(ClusterSpec, AnswersForDenseAndSparseJobs) {
  const ClusterSpec spec = mixed();
  EXPECT_EQ(spec.num_tasks("a"), 1);
  EXPECT_EQ(spec.num_tasks("b"), 2);
  EXPECT_EQ(spec.task_indices("b"), (std::vector<int>{2, 5}));
  EXPECT_EQ(spec.task_address("b", 5), "h5:1");
  const std::optional<std::string> hole;
  EXPECT_EQ(spec.job_tasks("b"), (Holes{hole, hole, "h2:1", hole, hole, "h5:1"}));
  EXPECT_EQ(std::get<TaskList>(spec.as_dict().at("a")), (TaskList{"h0:1"}));
  EXPECT_EQ(std::get<TaskMap>(spec.as_dict().at("b")), (TaskMap{{2, "h2:1"}, {5, "h5:1"}}));
  EXPECT_TRUE(spec.has_task("b", 2));
  EXPECT_FALSE(spec.has_task("b", 3));
  EXPECT_FALSE(spec.has_task("c", 0));
}

TEST(ClusterSpec, TakesListsOfTextsOfAnyType) {
  const std::string port = ":2223";
  const std::string_view other = "h1:1";
  const ClusterSpec spec({{"ps", {"localhost:2222"}}, {"worker", {"localhost" + port, other}}});
  EXPECT_EQ(spec.task_address("worker", 0), "localhost:2223");
  EXPECT_EQ(spec.task_address("worker", 1), "h1:1");
  EXPECT_EQ(spec.num_tasks("ps"), 1);
}

TEST(ClusterSpec, TakesTwoAddressesAsTwoTasksAndNotAsARangeOfOneText) {
  const ClusterSpec spec{{"worker", {"localhost:2223", "localhost:2224"}}};
  EXPECT_EQ(spec.num_tasks("worker"), 2);
  EXPECT_EQ(ClusterSpec({{"w", {{"1", "h1:1"}, {"3", "h3:1"}}}}).task_indices("w"),
            (std::vector<int>{1, 3}));
}

TEST(ClusterSpec, IsMadeFromMapsDefinitionsAndSpecs) {
  const ClusterSpec dense{{"w", {"x:1", "y:1"}}};
  EXPECT_EQ(ClusterSpec(std::map<std::string, TaskList>{{"w", {"x:1", "y:1"}}}), dense);
  EXPECT_EQ(ClusterSpec(std::map<std::string, TaskMap>{{"w", {{0, "x:1"}, {1, "y:1"}}}}), dense);
  const std::map<std::string, std::string> numeric = {{"1", "y:1"}, {"0", "x:1"}};
  EXPECT_EQ(ClusterSpec({{"w", numeric}}), dense);
  EXPECT_EQ(ClusterSpec(std::map<std::string, JobTasks>{{"w", TaskList{"x:1", "y:1"}}}), dense);
  EXPECT_EQ(ClusterSpec(ClusterDef{{{"w", {{1, "y:1"}, {0, "x:1"}}}}}), dense);
  EXPECT_EQ(ClusterSpec(dense), dense);
  const TaskList list = {"x:1", "y:1"};
  EXPECT_EQ(ClusterSpec({{"w", list}}), dense);
  EXPECT_EQ(ClusterSpec(std::vector<ClusterJob>{{"w", list}}), dense);
}

TEST(ClusterSpec, KeepsTheOrderOfJobs) {
  const ClusterSpec spec{{"worker", {"w:1"}}, {"chief", {"c:1"}}, {"ps", {"p:1"}}};
  EXPECT_EQ(spec.jobs(), (std::vector<std::string>{"worker", "chief", "ps"}));
}

TEST(ClusterSpec, SortsJobsAndTasksInItsDefinition) {
  const ClusterDef def =
      ClusterSpec{{"w", {{5, "e:1"}, {2, "b:1"}}}, {"a", {"x:1"}}}.as_cluster_def();
  EXPECT_EQ(def, (ClusterDef{{{"a", {{0, "x:1"}}}, {"w", {{2, "b:1"}, {5, "e:1"}}}}}));
}

TEST(ClusterSpec, PrintsJobsSortedAndDenseOnesAsLists) {
  EXPECT_EQ(mixed().to_string(), "ClusterSpec({'a': ['h0:1'], 'b': {2: 'h2:1', 5: 'h5:1'}})");
  std::ostringstream out;
  out << ClusterSpec{{"w", {"x:1", "y:1"}}, {"e", {}}};
  EXPECT_EQ(out.str(), "ClusterSpec({'e': {}, 'w': ['x:1', 'y:1']})");
  EXPECT_EQ(ClusterSpec().to_string(), "ClusterSpec({})");
}

TEST(ClusterSpec, IsFalseOnlyWithoutJobs) {
  EXPECT_FALSE(ClusterSpec());
  EXPECT_FALSE(ClusterSpec({}));
  EXPECT_TRUE(ClusterSpec({{"w", {}}}));
}

TEST(ClusterSpec, AJobWithoutTasksIsAnEmptyMapAndHasNoList) {
  const ClusterSpec spec{{"w", {}}};
  EXPECT_EQ(spec.num_tasks("w"), 0);
  EXPECT_TRUE(spec.task_indices("w").empty());
  EXPECT_TRUE(std::get<TaskMap>(spec.as_dict().at("w")).empty());
  EXPECT_ERROR(Code::InvalidArgument, "no tasks", spec.job_tasks("w"));
}

TEST(ClusterSpec, ComparesTasksAndNotTheFormTheyWereGivenIn) {
  EXPECT_EQ(ClusterSpec({{"w", {"x:1", "y:1"}}}), ClusterSpec({{"w", {{1, "y:1"}, {0, "x:1"}}}}));
  EXPECT_EQ(ClusterSpec({{"a", {"x:1"}}, {"b", {"y:1"}}}),
            ClusterSpec({{"b", {"y:1"}}, {"a", {"x:1"}}}));
  EXPECT_FALSE(ClusterSpec({{"w", {"x:1", "y:1"}}}) == ClusterSpec({{"w", {"y:1", "x:1"}}}));
  EXPECT_FALSE(ClusterSpec({{"w", {"x:1"}}}) == ClusterSpec({{"w", {{1, "x:1"}}}}));
  EXPECT_FALSE(ClusterSpec({{"w", {"x:1"}}}) == ClusterSpec({{"v", {"x:1"}}}));
  EXPECT_FALSE(ClusterSpec({{"w", {}}}) == ClusterSpec());
}

TEST(ClusterSpec, NamesWhatItDoesNotHave) {
  const ClusterSpec spec = mixed();
  EXPECT_ERROR(Code::InvalidArgument, "no job 'c'; the jobs are 'a', 'b'", spec.num_tasks("c"));
  EXPECT_ERROR(Code::InvalidArgument, "no job 'c'", spec.task_indices("c"));
  EXPECT_ERROR(Code::InvalidArgument, "no job 'c'", spec.task_address("c", 0));
  EXPECT_ERROR(Code::InvalidArgument, "no job 'c'", spec.job_tasks("c"));
  EXPECT_ERROR(Code::InvalidArgument, "job 'b' has no task 3", spec.task_address("b", 3));
  EXPECT_ERROR(Code::InvalidArgument, "did you mean 'worker'?",
               ClusterSpec({{"worker", {"x:1"}}}).task_address("wroker", 0));
}

TEST(ClusterSpec, RefusesWhatIsGivenTwiceAndNegativeIndices) {
  EXPECT_ERROR(Code::InvalidArgument, "job 'w' is given twice",
               ClusterSpec({{"w", {"x:1"}}, {"w", {"y:1"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "job 'w' is given twice",
               ClusterSpec(ClusterDef{{{"w", {}}, {"w", {}}}}));
  EXPECT_ERROR(Code::InvalidArgument, "task 2 of job 'w' is given twice, as 'x:1' and as 'y:1'",
               ClusterSpec(ClusterDef{{{"w", {{2, "x:1"}, {2, "y:1"}}}}}));
  EXPECT_ERROR(Code::InvalidArgument, "given twice", ClusterSpec({{"w", {{1, "x"}, {1, "y"}}}}));
  EXPECT_ERROR(Code::InvalidArgument, "index -1", ClusterSpec({{"w", {{-1, "x:1"}}}}));
  EXPECT_ERROR(Code::InvalidArgument, "'one' is not a task index",
               ClusterSpec({{"w", std::map<std::string, std::string>{{"one", "x:1"}}}}));
}

TEST(ClusterSpec, DoesNotFillHolesWithoutEnd) {
  const ClusterSpec spec{{"w", {{2'000'000'000, "x:1"}}}};
  EXPECT_ERROR(Code::InvalidArgument, "too large for a list", spec.job_tasks("w"));
}

RC_GTEST_PROP(ClusterSpecProperty, SurvivesEveryRoundTrip,
              (const std::map<std::string, std::map<uint8_t, std::string>>& source)) {
  std::map<std::string, TaskMap> jobs;
  for (const auto& [name, tasks] : source) jobs[name] = TaskMap(tasks.begin(), tasks.end());
  const ClusterSpec spec(jobs);
  RC_ASSERT(ClusterSpec(spec.as_dict()) == spec);
  RC_ASSERT(ClusterSpec(spec.as_cluster_def()) == spec);
  RC_ASSERT(ClusterSpec(spec.as_cluster_def()).as_cluster_def() == spec.as_cluster_def());
}

const ClusterSpec& two_jobs() {
  static const ClusterSpec spec{{"ps", {"p:1"}}, {"worker", {"w0:1", "w1:1"}}};
  return spec;
}

TEST(ServerDef, FillsInTheOnlyJobAndTheIndexOfItsOnlyTask) {
  const ServerDef def = make_server_def(ClusterSpec{{"local", {"localhost:0"}}});
  EXPECT_EQ(def.job_name, "local");
  EXPECT_EQ(def.task_index, 0);
  EXPECT_EQ(def.protocol, "grpc");
  EXPECT_EQ(def.address(), "localhost:0");
  EXPECT_EQ(make_server_def(ClusterSpec{{"w", {{3, "h3:1"}}}}).task_index, 3);
  EXPECT_EQ(make_server_def(two_jobs(), {.job_name = "ps"}).task_index, 0);
}

TEST(ServerDef, TakesWhatIsGiven) {
  const ServerDef def = make_server_def(
      two_jobs(), {.job_name = "worker", .task_index = 1, .protocol = "grpc+verbs"});
  EXPECT_EQ(def, (ServerDef{two_jobs(), "worker", 1, "grpc+verbs"}));
}

TEST(ServerDef, ArgumentsReplaceWhatADefinitionSays) {
  const ServerDef def{two_jobs(), "worker", 0, "grpc+verbs"};
  EXPECT_EQ(make_server_def(def, {}), def);
  EXPECT_EQ(make_server_def(def, {.task_index = 1}).address(), "w1:1");
  EXPECT_EQ(make_server_def(def, {.job_name = "ps", .protocol = "grpc"}),
            (ServerDef{two_jobs(), "ps", 0, "grpc"}));
}

TEST(ServerDef, SaysWhatIsMissing) {
  EXPECT_ERROR(Code::InvalidArgument, "job_name is needed", make_server_def(two_jobs()));
  EXPECT_ERROR(Code::InvalidArgument, "job_name is needed", make_server_def(ClusterSpec()));
  EXPECT_ERROR(Code::InvalidArgument, "task_index is needed",
               make_server_def(two_jobs(), {.job_name = "worker"}));
  EXPECT_ERROR(Code::InvalidArgument, "task_index is needed",
               make_server_def(ClusterSpec{{"w", {}}}));
  EXPECT_ERROR(Code::InvalidArgument, "no task 2",
               make_server_def(two_jobs(), {.job_name = "worker", .task_index = 2}));
  for (const char* job : {"a b", "1a", "a-b", "*", ""}) {
    EXPECT_ERROR(Code::InvalidArgument, "cannot be part of a device name",
                 make_server_def(ClusterSpec{{job, {"localhost:0"}}}));
  }
  EXPECT_ERROR(Code::Internal, "did you mean 'worker'?",
               make_server_def(two_jobs(), {.job_name = "workers", .task_index = 0}));
}

TEST(ClusterDeviceFilters, WithoutFiltersATaskSeesEverything) {
  const ClusterDeviceFilters filters;
  EXPECT_TRUE(filters.sees("worker", 0, "/job:worker/replica:0/task:1/device:CPU:0"));
}

TEST(ClusterDeviceFilters, ATaskSeesItsOwnDevicesAndThoseThatMatch) {
  ClusterDeviceFilters filters;
  filters.set_device_filters("worker", 0, {"/job:ps", "/job:chief/task:0"});
  EXPECT_TRUE(filters.sees("worker", 0, "/job:worker/replica:0/task:0/device:CPU:0"));
  EXPECT_FALSE(filters.sees("worker", 0, "/job:worker/replica:0/task:1/device:CPU:0"));
  EXPECT_TRUE(filters.sees("worker", 0, "/job:ps/replica:0/task:7/device:GPU:1"));
  EXPECT_FALSE(filters.sees("worker", 0, "/job:ps2/replica:0/task:0/device:CPU:0"));
  EXPECT_FALSE(filters.sees("worker", 0, "/job:chief/replica:0/task:1/device:CPU:0"));
  EXPECT_TRUE(filters.sees("worker", 1, "/job:worker/replica:0/task:0/device:CPU:0"));
  filters.set_device_filters("worker", 0, {});
  EXPECT_TRUE(filters.sees("worker", 0, "/job:worker/replica:0/task:1/device:CPU:0"));
  EXPECT_ERROR(Code::InvalidArgument, "job:ps", filters.set_device_filters("w", 0, {"job:ps"}));
}

}  // namespace
}  // namespace cohort
