// `cohort run --hosts` through a real ssh: a daemon of this test, with keys of its own, on
// loopback.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/launch.h"
#include "support/free_ports.h"

namespace cohort::test {
namespace {

constexpr char kDaemon[] = "/usr/sbin/sshd";

// Why there can be no daemon; empty when there can.
std::string reason_to_skip() {
  if (access(kDaemon, X_OK) != 0) return "openssh-server is not installed";
  if (std::system("command -v ssh ssh-keygen > /dev/null") != 0) {
    return "openssh-client is not installed";
  }
  if (geteuid() == 0 && access("/run/sshd", X_OK) != 0) {
    return "/run/sshd, which sshd wants when root starts it, does not exist";
  }
  return "";
}

class SshDaemon {
 public:
  SshDaemon() : daemon_(command()) {
    write_client();
    EXPECT_TRUE(eventually([&] { return contains(daemon_.output(), "listening"); }))
        << daemon_.output();
  }
  // For --ssh.
  std::string client() const { return directory_.path() + "/client"; }

 private:
  std::vector<std::string> command() {
    make_key("host_key");
    make_key("user_key");
    const std::string address = free_addresses(1).front();
    port_ = address.substr(address.rfind(':') + 1);
    std::ofstream(path("config")) << "Port " << port_ << "\nListenAddress 127.0.0.1\nHostKey "
                                  << path("host_key") << "\nAuthorizedKeysFile "
                                  << path("user_key.pub") << "\nPidFile none\nStrictModes no\n"
                                  << "PasswordAuthentication no\nSetEnv PATH="
                                  << std::filesystem::path(COHORT_COMMAND).parent_path().string()
                                  << ":/usr/bin:/bin\n";
    return {kDaemon, "-D", "-e", "-f", path("config")};
  }
  void write_client() const {
    std::ofstream(client()) << "#!/bin/sh\nexec ssh -F none -i " << path("user_key") << " -p "
                            << port_ << " -o StrictHostKeyChecking=no -o LogLevel=ERROR"
                            << " -o UserKnownHostsFile=" << path("known_hosts") << " \"$@\"\n";
    chmod(client().c_str(), 0700);
  }
  void make_key(const std::string& name) const {
    const std::string make = "ssh-keygen -q -t ed25519 -N '' -f " + path(name);
    EXPECT_EQ(std::system(make.c_str()), 0);
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

  LaunchDirectory directory_;
  std::string port_;
  Process daemon_;
};

class RealSsh : public testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = reason_to_skip();
    if (!reason.empty()) GTEST_SKIP() << reason;
    daemon_.emplace();
  }
  Launched run(const std::vector<std::string>& program) const {
    std::vector<std::string> words{"--hosts",         "127.0.0.1:1,localhost:2", "--ssh",
                                   daemon_->client(), "--join-timeout",          "20"};
    words.insert(words.end(), program.begin(), program.end());
    return launch(words);
  }

  std::optional<SshDaemon> daemon_;
};

TEST_F(RealSsh, StartsTasksOnTwoHosts) {
  const Launched done = run({DYING_TASK, "print", "WORLD_SIZE"});
  EXPECT_EQ(done.code, 0) << done.output;
  for (const char* line :
       {"[worker:0] variable 3", "[worker:1] variable 3", "[worker:2] variable 3"}) {
    EXPECT_TRUE(contains(done.output, line)) << done.output;
  }
}

TEST_F(RealSsh, BringsBackHowATaskDied) {
  const Launched done = run({DYING_TASK, "segv"});
  EXPECT_EQ(done.code, 139) << done.output;
  EXPECT_TRUE(contains(done.output, "a null pointer was used")) << done.output;
}

TEST_F(RealSsh, LeavesNothingBehindWhenTheLauncherIsKilled) {
  const LaunchDirectory files;
  const auto groups = [&] { return text_of(files.path() + "/groups"); };
  Process launcher(run_words({"--hosts", "127.0.0.1:1,localhost:1", "--ssh", daemon_->client(),
                              DYING_TASK, "wait", files.path() + "/groups"}));
  ASSERT_TRUE(eventually([&] {
    const std::string text = groups();
    return std::count(text.begin(), text.end(), '\n') == 2;
  })) << launcher.output();
  launcher.send(SIGKILL);
  std::istringstream started(groups());
  for (pid_t group; started >> group;) {
    EXPECT_TRUE(eventually([&] { return kill(-group, 0) != 0; })) << group;
  }
}

}  // namespace
}  // namespace cohort::test
