// The chief's own connections to its parameter servers.

#include "coordinator/parameter_servers.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "cohort/cohort.h"
#include "coordinator/remote_variables.h"
#include "support/eventually.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/process_cluster.h"
#include "support/relay.h"
#include "support/scoped_environment.h"
#include "topology/address.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

// The network between a chief and its parameter server. Heartbeats pass although it is cut, because
// they use the server's own address.
class CutNetwork : public testing::Test {
 protected:
  internal::GroupUpdate update(const std::string& name) const {
    return {.name = name,
            .home = servers->device(0),
            .function = internal::trace(
                name, {}, [](std::span<const Tensor>) { return std::vector<Tensor>{ones({2})}; })};
  }
  Status make(const internal::GroupUpdate& update) {
    return error_of([&] { servers->make(update, Tensor({int64_t{1}, ++calls_, int64_t{0}})); });
  }

  const ScopedEnvironment by_sockets{ScopedEnvironment::Variables{{"COHORT_TRANSPORT", "grpc"}}};
  const test::LocalCluster cluster{1, 0};
  test::Relay relay{internal::parse_address(cluster.spec().task_address("ps", 0)).port};
  const std::shared_ptr<internal::ParameterServers> servers =
      std::make_shared<internal::ParameterServers>(
          ClusterSpec(std::map<std::string, TaskList>{{"ps", TaskList{relay.address()}}}),
          internal::ParameterServersOptions{.container = "cut", .silence_limit = kSilence});

  static constexpr milliseconds kSilence{1500};

 private:
  int64_t calls_ = 0;
};

TEST_F(CutNetwork, EndsAnUpdateAndTheNextIsMade) {
  servers->take_over();
  const internal::GroupUpdate known = update("known");
  EXPECT_TRUE(make(known).ok());
  relay.cut();
  const Status cut = make(known);
  EXPECT_EQ(cut.code, Code::Unavailable) << cut.to_string();
  EXPECT_NE(cut.message.find("was silent"), std::string::npos) << cut.to_string();
  EXPECT_TRUE(make(known).ok());
}

TEST_F(CutNetwork, EndsAnUpdateThatTheServerDoesNotKnow) {
  servers->take_over();
  EXPECT_TRUE(make(update("known")).ok());
  relay.cut();
  const Status cut = make(update("new"));
  EXPECT_EQ(cut.code, Code::Unavailable) << cut.to_string();
  // Without the watch the question ends by its own limit of 10 s, with another text.
  EXPECT_NE(cut.message.find("was silent"), std::string::npos) << cut.to_string();
  EXPECT_TRUE(make(update("new")).ok());
}

TEST_F(CutNetwork, EndsAnUpdateThatComesAfterReleasedNames) {
  servers->take_over();
  const internal::GroupUpdate known = update("known");
  EXPECT_TRUE(make(known).ok());
  servers->lease_update(servers->device(0), "released").reset();
  relay.cut();
  const auto began = std::chrono::steady_clock::now();
  const Status status = make(known);  // the update may find a new connection
  EXPECT_TRUE(status.ok() || status.code == Code::Unavailable) << status.to_string();
  // Real time, because the update may succeed either way. The watch notices the silence after
  // 1.25 x kSilence, and the connection takes up to 4 s to close. Without the watch each question
  // had its own limit: 22 s in all.
  EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(14'000));
  EXPECT_TRUE(make(known).ok());
}

Tensor waits_longer_than_the_limit(Tensor x) {
  const auto until = std::chrono::steady_clock::now() + milliseconds(3000);
  test::eventually([&] { return std::chrono::steady_clock::now() > until; });
  return x;
}
COHORT_FUNCTION(parameter_servers_test_waits, waits_longer_than_the_limit);

// The server answers while it works.
TEST_F(CutNetwork, IsNotSuspectedWhileALongUpdateRuns) {
  servers->take_over();
  const internal::GroupUpdate slow{
      .name = "slow",
      .home = servers->device(0),
      .function = internal::trace("slow", {}, [](std::span<const Tensor>) {
        return call_native("parameter_servers_test_waits", {ones({2})}, {{kFloat32, {2}}});
      })};
  const Status made = make(slow);
  EXPECT_TRUE(made.ok()) << made.to_string();
}

TEST(ParameterServers, MakeUpdatesAfterOneThatCannotBePlaced) {
  const test::LocalCluster cluster(1, 0);
  internal::ParameterServers servers(cluster.spec(), {.container = "placed"});
  servers.take_over();
  const auto update = [&](const char* name, const char* where) {
    return internal::GroupUpdate{
        .name = name,
        .home = servers.device(0),
        .function = internal::trace(name, {}, [&](std::span<const Tensor>) {
          const auto on = device(where);
          return std::vector<Tensor>{ones({2}) + constant(1.f)};
        })};
  };
  const Tensor call_id({int64_t{1}, int64_t{1}, int64_t{0}});
  EXPECT_ERROR(Code::InvalidArgument, "cannot be placed",
               servers.make(update("bad", "/gpu:0"), call_id));
  servers.make(update("good", "/cpu:0"), call_id);
}

// A variable on the first server.
std::shared_ptr<internal::RemoteVariable> make_variable(
    const std::shared_ptr<internal::ParameterServers>& servers) {
  auto made = std::make_shared<internal::RemoteVariable>(
      VariableOptions{.name = "v"}, Shape{}, kFloat32,
      internal::RemoteVariable::Place{servers, servers->device(0), servers->unique_name("v")});
  made->write(internal::Write::Assign, Tensor(1.f));
  return made;
}

constexpr const char* kLost = "'v' is on parameter server /job:ps/replica:0/task:0, which is lost";

// A process that accepts no connection: it is there, and silent.
class SilentListener {
 public:
  explicit SilentListener(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(socket_, SOMAXCONN) != 0) {
      std::abort();
    }
  }
  ~SilentListener() { close(socket_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

 private:
  const int socket_;
};

// Callers that wait for a silent server wait at the same time and do not hold up others. Real time
// is the subject, so the bound is far from both sides: together the callers take 3 s, one after the
// other 48 s.
TEST(ParameterServers, AreWaitedForByAllCallersTogether) {
  test::LocalCluster cluster(1, 0);
  const auto servers = std::make_shared<internal::ParameterServers>(
      cluster.spec(), internal::ParameterServersOptions{.container = "silent",
                                                        .silence_limit = milliseconds(3000)});
  servers->take_over();
  const auto variable = make_variable(servers);
  const int port = internal::parse_address(cluster.spec().task_address("ps", 0)).port;
  cluster.stop("ps", 0);
  EXPECT_ERROR(Code::Unavailable, kLost, variable->read());
  const SilentListener silent(port);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::future<Status>> calls;
  for (int i = 0; i < 16; ++i) {
    calls.push_back(
        std::async(std::launch::async, [&] { return error_of([&] { (void)variable->read(); }); }));
  }
  servers->close_sessions();
  for (auto& call : calls) {
    EXPECT_EQ(call.wait_for(milliseconds(0)), std::future_status::timeout) << "it was waited for";
  }
  for (auto& call : calls) {
    const Status status = call.get();
    EXPECT_EQ(status.code, Code::Unavailable) << status.to_string();
    EXPECT_NE(status.message.find(kLost), std::string::npos) << status.message;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(25));
}

TEST(ParameterServers, ThatAreFrozenDoNotHoldUpTheEndOfAChief) {
  test::ProcessCluster cluster(COHORT_TEST_TASK, 1, 0);
  auto servers = std::make_shared<internal::ParameterServers>(
      cluster.spec(),
      internal::ParameterServersOptions{.container = "left", .silence_limit = milliseconds(1500)});
  servers->take_over();
  (void)make_variable(servers);
  cluster.task("ps", 0).freeze();
  const auto began = std::chrono::steady_clock::now();
  servers = nullptr;
  // Real time is the subject: a chief that waits for an answer takes 60 s, any other about 1 s.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
}

// A chief that was frozen while another took its place may end long after.
TEST(ParameterServers, KeepTheVariablesOfALaterChief) {
  const test::LocalCluster cluster(1, 0);
  const auto chief = [&](int64_t number) {
    return std::make_shared<internal::ParameterServers>(
        cluster.spec(), internal::ParameterServersOptions{.container = "main", .chief = number});
  };
  auto early = chief(1);
  early->take_over();
  const auto lost = make_variable(early);
  const auto late = chief(2);
  late->take_over();
  const auto kept = make_variable(late);
  early = nullptr;
  EXPECT_EQ(kept->read().to<float>(), 1.f);
  EXPECT_ERROR(Code::FailedPrecondition, "started 0.000 s later has taken over /job:ps",
               chief(1)->take_over());
}

// The error is the same whether the server has the plan or has to make it first.
TEST(ParameterServers, ThatAreFrozenAreNamedWithTheVariable) {
  test::ProcessCluster cluster(COHORT_TEST_TASK, 1, 0);
  const auto servers = std::make_shared<internal::ParameterServers>(
      cluster.spec(), internal::ParameterServersOptions{.container = "frozen",
                                                        .silence_limit = milliseconds(1500)});
  servers->take_over();
  const auto variable = make_variable(servers);
  cluster.task("ps", 0).freeze();
  EXPECT_ERROR(Code::Unavailable, kLost, variable->write(internal::Write::AssignAdd, Tensor(1.f)));
}

}  // namespace
}  // namespace cohort
