#include "rpc/heartbeat.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>

#include "rpc/grpc_endpoint.h"
#include "support/expect_error.h"
#include "support/message_log.h"
#include "support/no_descriptors.h"

extern char** environ;

namespace cohort::internal {
namespace {

// A task in a process of its own, which ends with this object.
class PeerProcess {
 public:
  explicit PeerProcess(const std::string& address = "127.0.0.1:0") {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC) | pipe2(out.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    std::string program = RPC_PEER;
    std::string where = address;
    std::array<char*, 3> arguments{program.data(), where.data(), nullptr};
    EXPECT_EQ(posix_spawn(&process_, program.c_str(), &files, nullptr, arguments.data(), environ),
              0);
    posix_spawn_file_actions_destroy(&files);
    close(in[0]);
    close(out[1]);
    keep_alive_ = in[1];
    FILE* const text = fdopen(out[0], "r");
    std::array<char, 200> said{};
    int incarnation = 0;
    EXPECT_EQ(fscanf(text, "%199s %d", said.data(), &incarnation), 2);
    fclose(text);
    peer_ = {.name = "/job:ps/replica:0/task:0",
             .incarnation = static_cast<uint64_t>(incarnation),
             .address = said.data()};
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() { end(); }

  const Peer& peer() const { return peer_; }
  void signal(int number) const { kill(process_, number); }
  void end() {
    if (process_ == 0) return;
    signal(SIGKILL);
    waitpid(process_, nullptr, 0);
    close(keep_alive_);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
  int keep_alive_ = -1;
  Peer peer_;
};

// What a heartbeat said, and when.
class Verdict {
 public:
  Heartbeat::Lost callback() {
    return [this](const Status& why) { promise_.set_value(why); };
  }
  // Nothing within the time: an OK status.
  Status within(std::chrono::milliseconds time) {
    return future_.wait_for(time) == std::future_status::ready ? future_.get() : Status{};
  }

 private:
  std::promise<Status> promise_;
  std::future<Status> future_ = promise_.get_future();
};

constexpr HeartbeatOptions fast() {
  return {.interval = std::chrono::milliseconds(100), .limit = std::chrono::milliseconds(1500)};
}

TEST(Heartbeat, AKilledPeerIsNoticedInTwoSeconds) {
  PeerProcess process;
  Verdict verdict;
  Heartbeat heartbeat({});
  heartbeat.watch(process.peer(), verdict.callback());
  EXPECT_TRUE(verdict.within(std::chrono::milliseconds(800)).ok());
  process.end();
  const Status why = verdict.within(std::chrono::seconds(2));
  EXPECT_EQ(why.code, Code::Unavailable) << why;
  EXPECT_NE(why.message.find(process.peer().address + " is gone"), std::string::npos) << why;
}

TEST(Heartbeat, AFrozenPeerIsNoticedAtTheLimit) {
  PeerProcess process;
  Verdict verdict;
  Heartbeat heartbeat(fast());
  heartbeat.watch(process.peer(), verdict.callback());
  EXPECT_TRUE(verdict.within(std::chrono::milliseconds(300)).ok());
  process.signal(SIGSTOP);
  const Status why = verdict.within(std::chrono::seconds(4));
  EXPECT_EQ(why.code, Code::Unavailable) << why;
  EXPECT_NE(why.message.find("it is frozen"), std::string::npos) << why;
  const std::string said = "has not answered for ";
  const size_t at = why.message.find(said);
  ASSERT_NE(at, std::string::npos) << why;
  EXPECT_GE(std::stod(why.message.substr(at + said.size())), 1.5) << why;
}

TEST(Heartbeat, AShortageOfDescriptorsIsNotThePeersFault) {
  const PeerProcess first;
  PeerProcess second;
  Verdict of_first;
  Verdict of_second;
  Heartbeat heartbeat(fast());
  heartbeat.watch(first.peer(), of_first.callback());
  // The first connection has the descriptors that gRPC itself needs.
  ASSERT_TRUE(of_first.within(std::chrono::milliseconds(500)).ok());
  {
    const NoDescriptors none;
    heartbeat.watch(second.peer(), of_second.callback());
    // Longer than a peer may be silent.
    ASSERT_TRUE(of_second.within(std::chrono::milliseconds(2500)).ok());
  }
  ASSERT_TRUE(of_second.within(std::chrono::milliseconds(500)).ok());
  second.end();
  const Status why = of_second.within(std::chrono::seconds(5));
  EXPECT_EQ(why.code, Code::Unavailable) << why;
  EXPECT_NE(why.message.find(second.peer().address + " is gone"), std::string::npos) << why;
}

TEST(Heartbeat, AShortFreezeIsForgiven) {
  PeerProcess process;
  Verdict verdict;
  Heartbeat heartbeat(
      {.interval = std::chrono::milliseconds(100), .limit = std::chrono::seconds(8)});
  heartbeat.watch(process.peer(), verdict.callback());
  EXPECT_TRUE(verdict.within(std::chrono::milliseconds(200)).ok());
  process.signal(SIGSTOP);
  EXPECT_TRUE(verdict.within(std::chrono::milliseconds(700)).ok());
  process.signal(SIGCONT);
  EXPECT_TRUE(verdict.within(std::chrono::milliseconds(500)).ok());
}

TEST(Heartbeat, ARestartedPeerIsAnother) {
  PeerProcess process;
  const Peer before = process.peer();
  process.end();
  const PeerProcess again(before.address);
  Verdict verdict;
  Heartbeat heartbeat(fast());
  heartbeat.watch(before, verdict.callback());
  const Status why = verdict.within(std::chrono::seconds(5));
  EXPECT_EQ(why.code, Code::Aborted) << why;
  EXPECT_NE(why.message.find("has been restarted"), std::string::npos) << why;
}

TEST(Heartbeat, WhoIsForgottenIsNotReported) {
  PeerProcess process;
  Verdict verdict;
  Heartbeat heartbeat(fast());
  heartbeat.watch(process.peer(), verdict.callback());
  heartbeat.forget(process.peer());
  process.end();
  EXPECT_TRUE(verdict.within(std::chrono::milliseconds(600)).ok());
}

TEST(Heartbeat, WatchesManyAndReportsTheRightOne) {
  PeerProcess one;
  PeerProcess other;
  Peer renamed = other.peer();
  Verdict of_one;
  Verdict of_other;
  Heartbeat heartbeat(fast());
  heartbeat.watch(one.peer(), of_one.callback());
  renamed.name = "somebody else";  // the answer will have another name
  heartbeat.watch(renamed, of_other.callback());
  EXPECT_EQ(of_other.within(std::chrono::seconds(5)).code, Code::Aborted);
  EXPECT_TRUE(of_one.within(std::chrono::milliseconds(300)).ok());
}

TEST(Heartbeat, AConnectionToAKilledProcessEndsAtOnce) {
  PeerProcess process;
  const auto endpoint =
      make_endpoint({.self = {.name = "client"}, .transport = TransportKind::Grpc});
  const auto connection = endpoint->connect(process.peer().address, MessageLog::soon());
  MessageLog log;
  connection->start(log.events());
  process.end();
  const Status why = log.await_end();
  EXPECT_EQ(why.code, Code::Unavailable) << why;
  // A silent peer is noticed much later, and for another reason.
  EXPECT_NE(why.message.find("the connection to /job:ps/replica:0/task:0 at " +
                             process.peer().address + " was lost: its process has ended"),
            std::string::npos)
      << why;
}

}  // namespace
}  // namespace cohort::internal
