#include <gtest/gtest.h>

#include "cohort/cluster.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

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
