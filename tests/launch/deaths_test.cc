// When a task dies, the launcher says which one, why, what it wrote last and where it was.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

using Variables = ScopedEnvironment::Variables;

struct Death {
  std::string way;
  std::vector<std::string> arguments;  // of the program
  int code;                            // of the launcher
  std::string explanation;
  std::string frame;  // empty: the report has no stack
};

void PrintTo(const Death& death, std::ostream* out) { *out << death.way; }

class Deaths : public testing::TestWithParam<Death> {
 protected:
  LaunchDirectory directory_;
  ScopedEnvironment variables_{Variables{{"COHORT_DIES", "worker:1"}}};
};

TEST_P(Deaths, AreExplained) {
  const Death& death = GetParam();
  std::vector<std::string> words{"-n",       "3",     "--grace",  "1",
                                 "--memory", "300MB", DYING_TASK, death.way};
  words.insert(words.end(), death.arguments.begin(), death.arguments.end());
  const Launched run = launch(words);
  EXPECT_EQ(run.code, death.code) << run.output;
  EXPECT_NE(run.output.find("cohort: worker:1 died after"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find(death.explanation), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("    | about to end by " + death.way), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("worker:0, worker:2: stopped"), std::string::npos) << run.output;
  if (!death.frame.empty()) {
    EXPECT_NE(run.output.find(death.frame), std::string::npos) << run.output;
  }
  EXPECT_EQ(run.output.find("where it was") != std::string::npos, !death.frame.empty())
      << run.output;
}

INSTANTIATE_TEST_SUITE_P(
    All, Deaths,
    testing::Values(
        Death{"throw",
              {},
              134,
              "uncaught exception std::runtime_error: the learning rate is a fish",
              "throw_something"},
        Death{"abort", {}, 134, "abort() was called (signal 6)", "main"},
        Death{"segv", {}, 139, "a null pointer was used, address 0x0", "write_to_null"},
        Death{"bus", {}, 135, "bus error (signal 7)", "read_past_the_file"},
        Death{"fpe",
              {},
              136,
              "arithmetic error (signal 8): integer division by zero",
              "divide_by_zero"},
        Death{"exit", {"7"}, 7, "exited with code 7", ""},
        Death{"memory", {}, 134, "out of memory (limit 300 MB, peak 2", "take_all_memory"},
        Death{"stack", {}, 139, "stack overflow (limit ", "recurse"},
        Death{"thread", {}, 139, "stack overflow (limit ", "recurse"},
        Death{"text", {}, 134, "uncaught exception char const*: a text and no exception", "main"},
        Death{
            "backtrace", {}, 134, "uncaught exception std::runtime_error: too few rows\n", "main"},
        Death{"terminate", {}, 134, "std::terminate() was called without an exception", "main"},
        Death{"term", {}, 143, "terminated (signal 15) by another process", ""},
        Death{"kill", {}, 137, "killed (signal 9) by another process, not for lack of memory", ""},
        Death{"deadlock",
              {},
              134,
              "deadlock: all of its threads waited for locks for 5 s",
              "wait_for_oneself"},
        Death{"assert", {}, 134, "Assertion `replicas > 0' failed.", "fail_an_assertion"}),
    [](const testing::TestParamInfo<Death>& tested) { return tested.param.way; });

// A group of processes with a memory limit, if this user may make one (probed).
class LimitedGroup {
 public:
  LimitedGroup() {
    const std::string root = "/sys/fs/cgroup/memory";
    if (!std::filesystem::exists(root + "/memory.limit_in_bytes")) return;
    const std::string directory = root + "/cohort_test_" + std::to_string(getpid());
    if (mkdir(directory.c_str(), 0700) != 0) return;
    directory_ = directory;
    std::ofstream(directory + "/memory.limit_in_bytes") << (150 << 20);
    std::ofstream(directory + "/memory.swappiness") << 0;
  }
  ~LimitedGroup() {
    if (!directory_.empty()) rmdir(directory_.c_str());
  }
  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

TEST(Death, ByTheKernelForWantOfMemoryIsToldApart) {
  const LimitedGroup group;
  if (group.directory().empty())
    GTEST_SKIP() << "this user may not make groups with a memory limit";
  const LaunchDirectory directory;
  const ScopedEnvironment variables(Variables{{"COHORT_DIES", "worker:1"}});
  Process process({"/bin/sh", "-c",
                   "echo $$ > " + group.directory() +
                       "/cgroup.procs && exec " COHORT_COMMAND " run -n 2 --grace 1 " DYING_TASK
                       " memory"});
  EXPECT_EQ(process.wait(), 137) << process.output();
  EXPECT_NE(process.output().find("worker:1 died after"), std::string::npos) << process.output();
  EXPECT_NE(process.output().find("out of memory (limit 150 MB, peak 1"), std::string::npos)
      << process.output();
}

// What a program wrote is not to move the cursor of who reads the report.
TEST(Death, IsReportedInPlainText) {
  const LaunchDirectory directory;
  const Launched run = launch({"-n", "1", DYING_TASK, "colours"});
  EXPECT_EQ(run.code, 3);
  EXPECT_NE(run.output.find("    | 100 % \n"), std::string::npos) << run.output;
}

TEST(Death, HasItsExitCodeWhereNobodyReadsTheReport) {
  const LaunchDirectory directory;
  for (const char* where : {"2>/dev/full", "2>&-", "2>&- >&-", "--trace /dev/full"}) {
    const bool is_option = std::string(where).starts_with("--");
    Process process({"/bin/sh", "-c",
                     std::string("exec " COHORT_COMMAND " run -n 1 ") + (is_option ? where : "") +
                         " " DYING_TASK " exit 7 " + (is_option ? "" : where)});
    EXPECT_EQ(process.wait(), 7) << where << process.output();
  }
}

TEST(Death, OfAProgramThatDoesNotExistNamesIt) {
  const LaunchDirectory directory;
  const Launched run = launch({"-n", "2", "./no_such_program"});
  EXPECT_EQ(run.code, 127);
  EXPECT_NE(run.output.find("worker:0 was not started: [Run] './no_such_program' cannot be "
                            "started: No such file or directory"),
            std::string::npos)
      << run.output;
}

TEST(Death, ByAnErrorThatWouldComeAgainPromisesNothingOfRestarts) {
  const LaunchDirectory directory;
  const Launched run = launch({"--strategy", "parameter_server", "--workers", "1", "--ps", "1",
                               COORDINATOR_TASK, "joins_uncaught"});
  EXPECT_EQ(run.code, 134) << run.output;
  EXPECT_TRUE(contains(run.output, "uncaught exception cohort::Error: INVALID_ARGUMENT: "))
      << run.output;
  EXPECT_FALSE(contains(run.output, "--max-restarts")) << run.output;
}

TEST(Death, IsFollowedByAsManyRestartsAsAreAllowed) {
  const LaunchDirectory directory;
  const std::string deaths = directory.path() + "/deaths";
  const Launched good =
      launch({"-n", "1", "--max-restarts", "worker=2", DYING_TASK, "some", deaths, "2"});
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_NE(good.output.find("Restart 2 of 2"), std::string::npos) << good.output;
  std::filesystem::remove(deaths);
  const Launched bad = launch({"-n", "1", "--max-restarts", "2", DYING_TASK, "some", deaths, "3"});
  EXPECT_EQ(bad.code, 139) << bad.output;
  EXPECT_NE(bad.output.find("it had been restarted 2 times"), std::string::npos) << bad.output;
  std::filesystem::remove(deaths);
  const Launched other =
      launch({"-n", "1", "--max-restarts", "ps=9", DYING_TASK, "some", deaths, "1"});
  EXPECT_EQ(other.code, 139) << other.output;
}

}  // namespace
}  // namespace cohort::test
