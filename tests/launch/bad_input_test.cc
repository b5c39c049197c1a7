// What people type wrong: a line that says what, and exit code 2 where the words themselves are it.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

struct BadLine {
  std::vector<std::string> words;
  int code;
  std::string said;
};

void PrintTo(const BadLine& line, std::ostream* out) {
  for (const std::string& word : line.words) *out << word << ' ';
}

class BadInput : public testing::TestWithParam<BadLine> {};

TEST_P(BadInput, IsTold) {
  const LaunchDirectory directory;
  unsetenv("TF_CONFIG");
  std::vector<std::string> words = GetParam().words;
  words.insert(words.begin(), COHORT_COMMAND);
  Process process(words);
  EXPECT_EQ(process.wait(std::chrono::seconds(20)), GetParam().code) << process.output();
  EXPECT_TRUE(contains(process.output(), GetParam().said)) << process.output();
  EXPECT_FALSE(contains(process.output(), "terminate called")) << process.output();
}

const std::string kProgram = DYING_TASK;

INSTANTIATE_TEST_SUITE_P(General, BadInput,
                         testing::Values(BadLine{{}, 2, "--help"},
                                         BadLine{{"rnu"}, 2, "no command 'rnu'"},
                                         BadLine{{"--bogus"}, 2, "--bogus"},
                                         BadLine{{"completion"}, 2, "shell"},
                                         BadLine{{"completion", "tcsh"}, 2, "tcsh"}));

INSTANTIATE_TEST_SUITE_P(
    Run, BadInput,
    testing::Values(
        BadLine{{"run"}, 2, "the program is missing"}, BadLine{{"run", kProgram}, 2, "give -n"},
        BadLine{{"run", "-n", "0", kProgram}, 2, "-n"},
        BadLine{{"run", "-n", "two", kProgram}, 2, "'two' is not a whole number from 1 to 1024"},
        BadLine{{"run", kProgram, "-n", "2"}, 2, "'-n 2' stands after the program"},
        BadLine{{"run", kProgram, "x", "--workers=2"}, 2, "'--workers=2' stands after the program"},
        BadLine{{"run", kProgram, "--chief", "x"}, 2, "cohort run --chief " + kProgram},
        BadLine{{"run", "-n", "2", "--workers", "2", kProgram}, 2, "--workers"},
        BadLine{{"run", "--workres", "2", kProgram}, 2, "no option '--workres'"},
        BadLine{{"run", "--ps", "2", kProgram}, 2, "no task trains"},
        BadLine{{"run", "-n", "1", "--grace", "-1", kProgram}, 2, "--grace"},
        BadLine{{"run", "--strategy", "miror", kProgram},
                2,
                "--strategy is 'miror', which is not a strategy"},
        BadLine{{"run", "--strategy", "multi_wroker", "-n", "2", kProgram},
                2,
                "did you mean 'multi_worker'?"},
        BadLine{{"run", "--strategy", "mirrored", "-n", "2", kProgram},
                2,
                "trains in one process, got 2"},
        BadLine{{"run", "--strategy", "central_storage", "--ps", "1", kProgram}, 2, "got --ps 1"},
        BadLine{{"run", "--strategy", "multi_worker", "-n", "2", "--ps", "1", kProgram},
                2,
                "use --strategy parameter_server"},
        BadLine{{"run", "--strategy", "multi_worker", kProgram}, 2, "give -n"},
        BadLine{{"run", "--strategy", "parameter_server", "-n", "2", kProgram},
                2,
                "needs workers and parameter servers, got 2 and 0"},
        BadLine{{"run", "--strategy", "parameter_server", "--ps", "1", kProgram}, 2, "got 0 and 1"},
        BadLine{{"run", "-n", "1", "--grace", "nan", kProgram}, 2, "--grace"},
        BadLine{{"run", "-n", "1", "--stall-after", "nan", kProgram}, 2, "--stall-after"},
        BadLine{{"run", "-n", "1", "--memory", "-1", kProgram}, 2, "--memory"},
        BadLine{{"run", "--hosts", "-oProxyCommand=ls", kProgram}, 2, "--hosts"},
        BadLine{{"run", "--hosts", "::1", kProgram}, 2, "IPv4"},
        BadLine{{"run", "--hosts", "a;ls:1", kProgram}, 2, "--hosts"},
        BadLine{{"run", "-n", "3", "--hosts", "127.0.0.1:2", kProgram}, 2, "3 tasks, but 2 places"},
        BadLine{{"run", "-n", "1", "--memory", "2XB", kProgram}, 2, "--memory"},
        BadLine{{"run", "-n", "1", "--max-restarts", "many", kProgram}, 2, "worker=3"},
        BadLine{{"run", "-n", "1", "--max-restarts", "wroker=1", kProgram}, 2, "is not a job"},
        BadLine{{"run", "-n", "1", "--stall-after", "soon", kProgram}, 2, "--stall-after"},
        BadLine{{"run", "--hosts", "a:0", kProgram}, 2, "host:tasks"},
        BadLine{{"run", "--hosts", "a:x", kProgram}, 2, "host:tasks"},
        BadLine{{"run", "--hosts", ":2", kProgram}, 2, "host:tasks"},
        BadLine{{"run", "--hosts", "a:1", "--nodes", "1", kProgram}, 2, "--nodes"},
        BadLine{{"run", "-n", "1", "--nodes", "0", kProgram}, 2, "--nodes"},
        BadLine{{"run", "-n", "1", "./no_such_program"}, 127, "No such file or directory"},
        BadLine{{"run", "-n", "1", "/tmp"}, 127, "chmod +x"},
        BadLine{{"run", "-n", "1", "--trace", "/no/such/t.json", kProgram, "exit", "0"},
                1,
                "/no/such/t.json"},
        BadLine{{"run", "-n", "1", "--log-dir", "/proc/none", kProgram, "exit", "0"},
                2,
                "--log-dir: '/proc/none'"}));

INSTANTIATE_TEST_SUITE_P(
    Join, BadInput,
    testing::Values(BadLine{{"join"}, 2, "launcher"}, BadLine{{"join", "h:1"}, 2, "token"},
                    BadLine{{"join", "no-port", "ab"}, 2, "no-port"},
                    BadLine{{"join", "127.0.0.1:1", "not a token"}, 2, "token"}));

INSTANTIATE_TEST_SUITE_P(
    Serve, BadInput,
    testing::Values(
        BadLine{{"serve"}, 2, "the task to serve is not known"},
        BadLine{{"serve", "--job", "ps"}, 2, "--cluster"},
        BadLine{{"serve", "--job", "ps", "--cluster", "ps"}, 2, "job=host:port"},
        BadLine{{"serve", "--job", "ps", "--cluster", "ps=h0"}, 2, "h0"},
        BadLine{{"serve", "--job", "ps", "--cluster", "ps=h0:99999"}, 2, "99999"},
        BadLine{{"serve", "--job", "ps", "--cluster", "{\"ps\": 3}"}, 2, "must be JSON of jobs"},
        BadLine{{"serve", "--job", "wroker", "--cluster", "worker=127.0.0.1:0"},
                2,
                "did you mean 'worker'?"},
        BadLine{
            {"serve", "--job", "ps", "--task", "5", "--cluster", "ps=127.0.0.1:0"}, 2, "no task 5"},
        BadLine{{"serve", "--job", "ps", "--task", "x", "--cluster", "ps=127.0.0.1:0"}, 2, "x"},
        BadLine{{"serve", "--job", "ps", "--cluster", "ps=127.0.0.1:0", "--credentials", "/none"},
                1,
                "/none"}));

INSTANTIATE_TEST_SUITE_P(
    Others, BadInput,
    testing::Values(BadLine{{"status", "no-port"}, 2, "no-port"},
                    BadLine{{"status"}, 1, "no tasks to ask"},
                    BadLine{{"status", "127.0.0.1:1"}, 1, "127.0.0.1:1"},
                    BadLine{{"status", "--credentials", "/none", "127.0.0.1:1"}, 1, "/none"},
                    BadLine{{"doctor", "--cluster", "x"}, 2, "job=host:port"},
                    BadLine{{"doctor", "--timeout", "-1"}, 2, "--timeout"},
                    BadLine{{"doctor", "--timeout", "nan"}, 2, "--timeout"},
                    BadLine{{"inspect"}, 2, "path"},
                    BadLine{{"inspect", "/no/such/file"}, 1, "/no/such/file"},
                    BadLine{{"inspect", "--kind", "novel", "x"}, 2, "novel"},
                    BadLine{{"inspect", "--limit", "-1", "x"}, 2, "--limit"},
                    BadLine{{"inspect", "/etc/hostname"}, 1, "/etc/hostname"},
                    BadLine{{"inspect", "/"}, 1, "/"}));

TEST(Output, ThatCannotBeWrittenIsAnError) {
  for (const char* words : {"completion bash", "--version", "--help"}) {
    Process process(
        {"/bin/sh", "-c", std::string("exec " COHORT_COMMAND " ") + words + " >/dev/full"});
    EXPECT_EQ(process.wait(), 1) << words;
    EXPECT_TRUE(contains(process.output(), "No space left on device")) << process.output();
  }
}

TEST(Directory, ThatIsGoneIsReported) {
  const LaunchDirectory directory;
  const std::string gone = directory.path() + "/gone";
  Process process({"/bin/sh", "-c",
                   "mkdir " + gone + " && cd " + gone + " && rmdir " + gone +
                       " && exec " COHORT_COMMAND " run -n 1 " DYING_TASK " exit 0"});
  EXPECT_EQ(process.wait(), 2) << process.output();
  EXPECT_TRUE(contains(process.output(), "cd to another one")) << process.output();
}

// The error names the process that has the port.
TEST(TakenPort, IsReportedWithItsOwner) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(socket, 1), 0);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string port = std::to_string(ntohs(address.sin_port));
  Process server({COHORT_COMMAND, "serve", "--job", "ps", "--cluster", "ps=127.0.0.1:" + port});
  EXPECT_EQ(server.wait(std::chrono::seconds(20)), 1) << server.output();
  EXPECT_TRUE(contains(server.output(), port)) << server.output();
  EXPECT_TRUE(contains(server.output(), std::to_string(getpid()))) << server.output();
  close(socket);
}

}  // namespace
}  // namespace cohort::test
