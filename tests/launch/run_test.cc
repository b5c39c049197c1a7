// What the tasks of a run are given, and what becomes of their output.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

TEST(Run, GivesEveryTaskItsPlace) {
  const LaunchDirectory directory;
  const Launched ranks = launch({"-n", "2", DYING_TASK, "print", "RANK"});
  EXPECT_EQ(ranks.code, 0) << ranks.output;
  EXPECT_TRUE(contains(ranks.output, "[worker:0] variable 0\n")) << ranks.output;
  EXPECT_TRUE(contains(ranks.output, "[worker:1] variable 1\n")) << ranks.output;
  const Launched size = launch({"--workers", "2", "--chief", DYING_TASK, "print", "WORLD_SIZE"});
  EXPECT_TRUE(contains(size.output, "[chief:0]  variable 3\n")) << size.output;
  const Launched config = launch({"--workers", "1", "--ps", "1", DYING_TASK, "print", "TF_CONFIG"});
  EXPECT_TRUE(contains(config.output, R"("task":{"index":0,"type":"worker"})")) << config.output;
}

TEST(Run, KeepsWhatATaskWritesInAFile) {
  const LaunchDirectory directory;
  const Launched run = launch({"-n", "1", DYING_TASK, "print", "LOCAL_RANK"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(contains(run.output, "[worker:0] to the other stream\n")) << run.output;
  const std::vector<std::string> files = directory.files("worker-0.log");
  ASSERT_EQ(files.size(), 1U);
  const std::string text = text_of(files[0]);
  EXPECT_TRUE(contains(text, "variable 0\n")) << text;
  EXPECT_TRUE(contains(text, "to the other stream\n")) << text;
  const Launched chosen =
      launch({"-n", "1", "--log-dir", directory.path() + "/mine", DYING_TASK, "print", "RANK"});
  EXPECT_TRUE(contains(text_of(directory.path() + "/mine/worker-0.log"), "variable 0\n"));
}

TEST(Run, RemovesDirectoriesOfRunsThatEndedLongAgo) {
  namespace fs = std::filesystem;
  const LaunchDirectory directory;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(launch({"-n", "1", DYING_TASK, "print", "RANK"}).code, 0);
  }
  const std::vector<std::string> logs = directory.files("worker-0.log");
  ASSERT_EQ(logs.size(), 3U);
  const auto run_of = [](const fs::path& log) { return log.parent_path().parent_path(); };
  const fs::path old = run_of(logs[0]);
  const fs::path running = old.parent_path() / ("20200101-000000-" + std::to_string(getpid()));
  fs::create_directory(running);
  const auto set_age = [](const fs::path& run, std::chrono::days age) {
    fs::last_write_time(run, fs::file_time_type::clock::now() - age);
  };
  for (const fs::path& each : {old, running}) set_age(each, std::chrono::days(8));
  set_age(run_of(logs[1]), std::chrono::days(6));
  ASSERT_EQ(launch({"-n", "1", DYING_TASK, "print", "RANK"}).code, 0);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(logs[1]));
  EXPECT_TRUE(fs::exists(logs[2]));
  EXPECT_TRUE(fs::exists(running));
}

TEST(Run, MakesCertificatesUnlessItIsToldNotTo) {
  const LaunchDirectory directory;
  const std::string variable = "COHORT_CREDENTIALS";
  const Launched secure = launch({"-n", "1", DYING_TASK, "print", variable});
  EXPECT_TRUE(contains(secure.output, "/secrets/worker-0\n")) << secure.output;
  const Launched open = launch({"-n", "1", "--insecure", DYING_TASK, "print", variable});
  EXPECT_TRUE(contains(open.output, "variable insecure\n")) << open.output;
}

TEST(Run, TrainsOnAParameterServerWithMutualTls) {
  const LaunchDirectory directory;
  const Launched run = launch({"--workers", "2", "--ps", "1", TRAIN_TASK});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(contains(run.output, "[worker:0] with certificates, total 30\n")) << run.output;
  EXPECT_TRUE(contains(run.output, "[worker:1] with certificates, total 30\n")) << run.output;
}

TEST(Run, SaysWhatIsWrongWithItsOptions) {
  EXPECT_EQ(launch({"-n", "2"}).code, 2);
  EXPECT_TRUE(contains(launch({"-n", "2"}).output, "the program is missing"));
  EXPECT_TRUE(contains(launch({"--worker", "2", "x"}).output, "there is no option '--worker'"));
  EXPECT_TRUE(contains(launch({"--ps", "2", DYING_TASK}).output, "no task trains"));
  EXPECT_TRUE(contains(launch({"-n", "1", "--max-restarts", "wroker=2", DYING_TASK}).output,
                       "'wroker' is not a job"));
}

TEST(Command, StartsInAMoment) {
  rusage before{}, after{};
  getrusage(RUSAGE_CHILDREN, &before);
  constexpr int kTimes = 10;
  for (int i = 0; i < kTimes; ++i) {
    Process process({COHORT_COMMAND, "--version"});
    EXPECT_EQ(process.wait(), 0);
  }
  getrusage(RUSAGE_CHILDREN, &after);
  const auto millis = [](const rusage& used) {
    return 1e3 * static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-3 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  };
  // Of the processor: what else the machine does is not the command's doing.
  EXPECT_LT((millis(after) - millis(before)) / kTimes, 30);
}

}  // namespace
}  // namespace cohort::test
