// However a launcher ends, it leaves nothing behind.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

// A run of two tasks, each with a child of its own, that wait to be stopped.
class WaitingRun {
 public:
  explicit WaitingRun(const std::string& way = "wait")
      : launcher_(run_words({"-n", "2", "--grace", "1", DYING_TASK, way, file()})) {}

  std::string file() const { return directory_.path() + "/groups"; }
  Process& launcher() { return launcher_; }
  const LaunchDirectory& directory() const { return directory_; }
  // The process groups of its tasks, once both have started.
  std::vector<pid_t> groups() {
    EXPECT_TRUE(eventually([&] { return read_groups().size() == 2; })) << launcher_.output();
    return read_groups();
  }

 private:
  std::vector<pid_t> read_groups() const {
    std::ifstream from(file());
    std::vector<pid_t> found;
    for (pid_t group; from >> group;) found.push_back(group);
    return found;
  }

  LaunchDirectory directory_;
  Process launcher_;
};

bool all_gone(const std::vector<pid_t>& groups) {
  for (const pid_t group : groups) {
    if (kill(-group, 0) == 0) return false;
  }
  return true;
}

int times(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

TEST(Launcher, ThatIsKilledLeavesNoOrphansAndNoSecrets) {
  for (int i = 0; i < times("COHORT_KILLS", 10); ++i) {
    WaitingRun run;
    const std::vector<pid_t> groups = run.groups();
    EXPECT_FALSE(run.directory().files("private_key.pem").empty());
    run.launcher().send(SIGKILL);
    EXPECT_EQ(run.launcher().wait(), -SIGKILL);
    EXPECT_TRUE(eventually([&] { return all_gone(groups); }, std::chrono::seconds(5)));
    EXPECT_TRUE(eventually([&] { return run.directory().files("private_key.pem").empty(); },
                           std::chrono::seconds(5)));
  }
}

TEST(Launcher, StopsEverybodyWhenItIsInterrupted) {
  WaitingRun run;
  const std::vector<pid_t> groups = run.groups();
  run.launcher().send(SIGINT);
  EXPECT_EQ(run.launcher().wait(), 128 + SIGINT) << run.launcher().output();
  EXPECT_TRUE(all_gone(groups));
  EXPECT_TRUE(run.directory().files("private_key.pem").empty());
}

TEST(Launcher, KillsWhoDoesNotEndWhenAsked) {
  WaitingRun run("stubborn");
  const std::vector<pid_t> groups = run.groups();
  run.launcher().send(SIGTERM);
  EXPECT_EQ(run.launcher().wait(), 128 + SIGTERM) << run.launcher().output();
  EXPECT_TRUE(all_gone(groups));
  EXPECT_TRUE(
      contains(run.launcher().output(),
               "cohort: worker:0, worker:1 did not end within 1 s and were killed; see --grace\n"))
      << run.launcher().output();
}

// A shell that becomes the launcher, with these words in front of it and behind it.
std::vector<std::string> shell_run(const std::string& before, const std::string& words) {
  return {"/bin/sh", "-c", before + " exec " COHORT_COMMAND " run --grace 1 " + words};
}

TEST(Launcher, StopsATaskThatWritesWithoutEnd) {
  const LaunchDirectory directory;
  Process launcher(shell_run("", "-n 2 " DYING_TASK " endless > /dev/null"));
  EXPECT_TRUE(eventually([&] {
    const std::vector<std::string> logs = directory.files("worker-0.log");
    return !logs.empty() && std::filesystem::file_size(logs[0]) > (1 << 20);
  }));
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait(std::chrono::seconds(20)), 128 + SIGINT) << launcher.output();
}

TEST(Launcher, DoesNotWaitForAReaderWhenItIsAskedToEnd) {
  const LaunchDirectory directory;
  const std::string pipe = directory.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // which does not read
  Process launcher(shell_run("", "-n 1 " DYING_TASK " endless > " + pipe));
  EXPECT_TRUE(eventually([&] {
    int unread = 0;
    return ioctl(reader, FIONREAD, &unread) == 0 && unread > (48 << 10);
  }));
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait(std::chrono::seconds(20)), 128 + SIGTERM) << launcher.output();
  close(reader);
}

TEST(Launcher, IgnoresWhatItWasStartedToIgnore) {
  const LaunchDirectory directory;
  Process launcher(
      shell_run("trap '' HUP;", "-n 1 " DYING_TASK " wait " + directory.path() + "/groups"));
  EXPECT_TRUE(eventually([&] { return !text_of(directory.path() + "/groups").empty(); }));
  launcher.send(SIGHUP);
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait(), 128 + SIGTERM) << launcher.output();
}

// Even if no process has waited for it.
bool has_ended(pid_t process) {
  const std::string about = text_of("/proc/" + std::to_string(process) + "/stat");
  const size_t state = about.rfind(')') + 2;
  return about.empty() || about.at(state) == 'Z' || about.at(state) == 'X';
}

TEST(Launcher, LeavesNoDaemonThatATaskStarted) {
  const LaunchDirectory directory;
  const std::string file = directory.path() + "/daemon";
  EXPECT_EQ(launch({"-n", "1", DYING_TASK, "daemon", file}).code, 0);
  EXPECT_TRUE(has_ended(std::stoi(text_of(file))));
  std::filesystem::remove(file);
  Process launcher(run_words({"-n", "1", DYING_TASK, "daemon_and_wait", file}));
  ASSERT_TRUE(eventually([&] { return !text_of(file).empty(); })) << launcher.output();
  launcher.send(SIGKILL);
  EXPECT_TRUE(eventually([&] { return has_ended(std::stoi(text_of(file))); }));
}

TEST(Launchers, AtTheSameTimeDoNotMeetAtAPort) {
  const int launches = times("COHORT_LAUNCHES", 20);
  const LaunchDirectory directory;
  for (int done = 0; done < launches; done += 10) {
    std::vector<std::unique_ptr<Process>> group;
    for (int i = 0; i < 10; ++i) {
      group.push_back(std::make_unique<Process>(run_words({"-n", "4", DYING_TASK, "listen"})));
    }
    for (const auto& process : group) EXPECT_EQ(process->wait(), 0) << process->output();
  }
}

}  // namespace
}  // namespace cohort::test
