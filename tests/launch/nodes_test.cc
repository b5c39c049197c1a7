// Runs on several machines, which are several `cohort join` here.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

// A launcher that waits for two machines, and these.
class TwoMachines {
 public:
  explicit TwoMachines(const std::vector<std::string>& program, const std::string& grace = "1")
      : launcher_(words(program, grace)) {
    EXPECT_TRUE(eventually([&] { return !join_words().empty(); })) << launcher_.output();
    for (int i = 0; i < 2; ++i) machines_.push_back(std::make_unique<Process>(join_words()));
  }
  Process& launcher() { return launcher_; }
  Process& machine(size_t i) { return *machines_[i]; }
  const LaunchDirectory& directory() const { return directory_; }

 private:
  static std::vector<std::string> words(const std::vector<std::string>& program,
                                        const std::string& grace) {
    std::vector<std::string> all =
        run_words({"-n", "3", "--nodes", "2", "--listen", "127.0.0.1", "--grace", grace});
    all.insert(all.end(), program.begin(), program.end());
    return all;
  }
  // What the launcher says is to be typed.
  std::vector<std::string> join_words() const {
    std::istringstream text(launcher_.output());
    for (std::string line; std::getline(text, line);) {
      std::istringstream parts(line);
      std::string cohort, join, address, token;
      if (parts >> cohort >> join >> address >> token && join == "join") {
        return {COHORT_COMMAND, join, address, token};
      }
    }
    return {};
  }

  LaunchDirectory directory_;
  Process launcher_;
  std::vector<std::unique_ptr<Process>> machines_;
};

TEST(Nodes, RunTheTasksBetweenThem) {
  TwoMachines run({DYING_TASK, "print", "RANK"});
  EXPECT_EQ(run.launcher().wait(), 0) << run.launcher().output();
  for (const char* line :
       {"[worker:0] variable 0", "[worker:1] variable 1", "[worker:2] variable 2"}) {
    EXPECT_TRUE(contains(run.launcher().output(), line)) << run.launcher().output();
  }
  EXPECT_EQ(run.machine(0).wait(), 0) << run.machine(0).output();
  EXPECT_EQ(run.machine(1).wait(), 0) << run.machine(1).output();
}

TEST(Nodes, AnswerStatusForTheRunThatTheyJoined) {
  const LaunchDirectory files;
  const std::string end = files.path() + "/end";
  TwoMachines run({STRATEGY_TASK, end});
  const auto run_files = [&] { return run.directory().files("run.json"); };
  ASSERT_TRUE(eventually([&] { return run_files().size() == 3; })) << run.launcher().output();
  std::string told;
  int code = -1;
  const auto ask = [&] {
    Process status({COHORT_COMMAND, "status"});
    code = status.wait();
    told = status.output();
    EXPECT_EQ(told.find("tasks of the run"), told.rfind("tasks of the run")) << told;
  };
  const std::string launcher = std::to_string(run.launcher().id());
  ask();
  EXPECT_TRUE(contains(told, "tasks of the run of process " + launcher)) << told;
  for (const std::string& file : run_files()) {  // as if the launcher were on another machine
    if (contains(file, "-" + launcher + "/run.json")) std::filesystem::remove(file);
  }
  EXPECT_TRUE(eventually([&] {
    ask();
    return code == 0 && contains(told, "worker:2");
  })) << told;
  EXPECT_FALSE(contains(told, "process " + launcher)) << told;
  std::ofstream(end) << 1;
  EXPECT_EQ(run.launcher().wait(), 0) << run.launcher().output();
}

TEST(Nodes, TellHowFarATrainingIs) {
  const LaunchDirectory files;
  const std::string end = files.path() + "/end";
  TwoMachines run({STRATEGY_TASK, end});
  EXPECT_TRUE(eventually([&] {
    return contains(run.launcher().output(), "[worker:0] epoch 1/2 [");
  })) << run.launcher().output();
  std::ofstream(end) << 1;
  EXPECT_EQ(run.launcher().wait(), 0) << run.launcher().output();
}

TEST(Nodes, SendTheirTimelinesInTheLaunchersTime) {
  const LaunchDirectory files;
  const std::string file = files.path() + "/run.json";
  const ScopedEnvironment steps(ScopedEnvironment::Variables{{"COHORT_STEPS", "30"}});
  TwoMachines run({"--trace", file, STALLING_TASK, "none"});
  EXPECT_EQ(run.launcher().wait(), 0) << run.launcher().output();
  const std::string text = text_of(file);
  for (const char* part : {R"("name":"worker:2")", R"("cat":"step")", R"("cat":"collective")"}) {
    EXPECT_TRUE(contains(text, part)) << part;
  }
}

TEST(Nodes, SayWhoIsWaitedForAndWhereThatOneIs) {
  const ScopedEnvironment variables(ScopedEnvironment::Variables{{"COHORT_STALLS", "worker:2"}});
  TwoMachines run({"--stall-after", "1", STALLING_TASK, "loop"});
  EXPECT_TRUE(eventually([&] {
    return contains(run.launcher().output(), "all other tasks wait for worker:2") &&
           contains(run.launcher().output(), "compute_for_ever");
  })) << run.launcher().output();
  run.launcher().send(SIGTERM);
  EXPECT_EQ(run.launcher().wait(), 128 + SIGTERM);
}

TEST(Nodes, TellHowATaskThereDied) {
  const ScopedEnvironment variables(ScopedEnvironment::Variables{{"COHORT_DIES", "worker:2"}});
  TwoMachines run({DYING_TASK, "segv"});
  EXPECT_EQ(run.launcher().wait(), 139) << run.launcher().output();
  EXPECT_TRUE(contains(run.launcher().output(), "worker:2 died after")) << run.launcher().output();
  EXPECT_TRUE(contains(run.launcher().output(), "a null pointer was used"))
      << run.launcher().output();
  EXPECT_TRUE(contains(run.launcher().output(), "write_to_null")) << run.launcher().output();
}

TEST(Nodes, ThatAreLostEndTheRun) {
  const LaunchDirectory files;
  TwoMachines run({DYING_TASK, "wait", files.path() + "/groups"});
  EXPECT_TRUE(eventually([&] {
    const std::string text = text_of(files.path() + "/groups");
    return std::count(text.begin(), text.end(), '\n') == 3;
  }));
  run.machine(1).send(SIGKILL);
  EXPECT_EQ(run.launcher().wait(), 1) << run.launcher().output();
  for (const char* part : {" was lost after ", "the machine at 127.0.0.1 was lost"}) {
    EXPECT_TRUE(contains(run.launcher().output(), part)) << run.launcher().output();
  }
  EXPECT_FALSE(contains(run.launcher().output(), "was not started")) << run.launcher().output();
}

TEST(Nodes, KillTheirTasksWhenTheLauncherIsLost) {
  const LaunchDirectory files;
  TwoMachines run({DYING_TASK, "wait", files.path() + "/groups"});
  EXPECT_TRUE(eventually([&] {
    const std::string text = text_of(files.path() + "/groups");
    return std::count(text.begin(), text.end(), '\n') == 3;
  }));
  run.launcher().send(SIGKILL);
  EXPECT_EQ(run.machine(0).wait(), 1) << run.machine(0).output();
  EXPECT_EQ(run.machine(1).wait(), 1) << run.machine(1).output();
  EXPECT_TRUE(contains(run.machine(0).output(), "the launcher was lost"));
  std::ifstream groups(files.path() + "/groups");
  for (pid_t group; groups >> group;) {
    EXPECT_TRUE(eventually([&] { return kill(-group, 0) != 0; })) << group;
  }
}

TEST(Nodes, ThatAreAskedToEndLetTheTrainingBeSaved) {
  const LaunchDirectory files;
  TwoMachines run({TRAINER_TASK, files.path(), "1000000"}, "60");
  ASSERT_TRUE(eventually([&] { return contains(run.launcher().output(), "made 9"); }))
      << run.launcher().output();
  run.machine(1).send(SIGTERM);
  EXPECT_EQ(run.machine(1).wait(), 128 + SIGTERM) << run.machine(1).output();
  EXPECT_TRUE(contains(run.machine(1).output(), "asking the launcher to stop the run"))
      << run.machine(1).output();
  EXPECT_EQ(run.launcher().wait(), 128 + SIGTERM) << run.launcher().output();
  for (const char* part : {"the machine at 127.0.0.1 was asked to end: stopping the tasks",
                           "asked the training to end: saved after step "}) {
    EXPECT_TRUE(contains(run.launcher().output(), part)) << run.launcher().output();
  }
  EXPECT_EQ(run.machine(0).wait(), 0) << run.machine(0).output();
}

TEST(Nodes, ThatAreInterruptedTwiceKillTheirTasks) {
  const LaunchDirectory files;
  TwoMachines run({DYING_TASK, "stubborn", files.path() + "/groups"}, "3600");
  EXPECT_TRUE(eventually([&] {
    const std::string text = text_of(files.path() + "/groups");
    return std::count(text.begin(), text.end(), '\n') == 3;
  }));
  run.machine(1).send(SIGTERM);
  EXPECT_TRUE(eventually([&] {
    return contains(run.launcher().output(), "was asked to end: stopping the tasks");
  })) << run.launcher().output();
  run.machine(1).send(SIGTERM);
  EXPECT_EQ(run.machine(1).wait(), 128 + SIGTERM) << run.machine(1).output();
  EXPECT_TRUE(
      contains(run.machine(1).output(), "this machine leaves the run: its tasks are killed"))
      << run.machine(1).output();
}

TEST(Nodes, ThatDoNotComeAreWaitedForInBoundedTime) {
  const LaunchDirectory directory;
  const Launched run = launch({"-n", "2", "--nodes", "2", "--listen", "127.0.0.1", "--join-timeout",
                               "1", DYING_TASK, "print", "RANK"});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_TRUE(contains(run.output, "0 of 2 machines joined within 1 s")) << run.output;
}

// Programs that stand for ssh: they get options, the host, and what to run there.
class Ssh {
 public:
  explicit Ssh(const std::string& script) : path_(directory_.path() + "/ssh") {
    std::ofstream(path_) << "#!/bin/sh\n" << script << "\n";
    chmod(path_.c_str(), 0700);
  }
  Launched run(const std::vector<std::string>& program) const {
    std::vector<std::string> words{"--hosts", "127.0.0.1:1,localhost:2", "--ssh", path_};
    words.insert(words.end(), program.begin(), program.end());
    return launch(words);
  }

 private:
  LaunchDirectory directory_;
  std::string path_;
};

TEST(Hosts, AreStartedBySsh) {
  const std::string directory = std::filesystem::path(COHORT_COMMAND).parent_path().string();
  const Ssh ssh("shift 5; PATH=" + directory + ":$PATH exec \"$@\"");
  const Launched run = ssh.run({DYING_TASK, "print", "WORLD_SIZE"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_TRUE(contains(run.output, "[worker:2] variable 3")) << run.output;
}

TEST(Hosts, ThatSshDoesNotReachAreNamed) {
  const Ssh ssh("echo no route to host >&2; exit 255");
  const Launched run = ssh.run({DYING_TASK, "print", "WORLD_SIZE"});
  EXPECT_EQ(run.code, 1) << run.output;
  EXPECT_TRUE(contains(run.output, "no route to host")) << run.output;
  // The run ends with the first of the two, whichever that is.
  EXPECT_TRUE(contains(run.output, "127.0.0.1: exited with code 255") ||
              contains(run.output, "localhost: exited with code 255"))
      << run.output;
}

}  // namespace
}  // namespace cohort::test
