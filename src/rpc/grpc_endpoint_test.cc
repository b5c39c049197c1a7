#include "rpc/grpc_endpoint.h"

#include <fmt/format.h>

#include <future>
#include <thread>

#include "rpc/handshake.h"
#include "rpc/task_status.h"
#include "support/connection_tries.h"
#include "support/ends_with_mutex.h"
#include "support/expect_error.h"
#include "support/message_log.h"
#include "support/no_descriptors.h"
#include "support/relay.h"
#include "support/scoped_environment.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

Deadline within(std::chrono::milliseconds time) { return steady_clock::now() + time; }

// A task that answers every message with itself.
class EchoTask {
 public:
  explicit EchoTask(EndpointOptions options)
      : endpoint_(make_endpoint(std::move(options), [this](std::shared_ptr<Connection> connection) {
          Connection& back = *connection;
          connection->start(
              {[&back](Message message) { back.send(std::move(message)); }, [](const Status&) {}});
          const std::lock_guard lock(mutex_);
          connections_.push_back(std::move(connection));
        })) {}

  Endpoint& endpoint() { return *endpoint_; }
  const std::string& address() const { return endpoint_->self().address; }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::unique_ptr<Endpoint> endpoint_;
};

EndpointOptions task(uint64_t cluster = 0) {
  return {
      .self = {.name = "/job:echo/replica:0/task:0", .incarnation = 7, .address = "localhost:0"},
      .cluster = cluster,
      .transport = TransportKind::Grpc};
}

EndpointOptions client(uint64_t cluster = 0) {
  return {
      .self = {.name = "client 1 on here"}, .cluster = cluster, .transport = TransportKind::Grpc};
}

// Sends a message over the connection and waits for it to come back.
void expect_echo(Connection& connection) {
  MessageLog log;
  connection.start(log.events());
  connection.send(test_message("x", {1000}));
  ASSERT_TRUE(connection.deliver_until([&] { return log.count() == 1; }, MessageLog::soon()));
  expect_message(log.take().front(), "x", {1000});
  connection.close({});
  EXPECT_EQ(log.await_end().code, Code::Cancelled);
}

TEST(Endpoint, ConnectsAndKnowsThePeer) {
  EchoTask echo(task());
  const auto asking = make_endpoint(client());
  const auto connection = asking->connect(echo.address(), MessageLog::soon());
  EXPECT_EQ(connection->kind(), "grpc");
  EXPECT_EQ(connection->peer().name, "/job:echo/replica:0/task:0");
  EXPECT_EQ(connection->peer().incarnation, 7u);
  EXPECT_EQ(connection->peer().address, echo.address());
  expect_echo(*connection);
}

// By each transport: the check comes before the choice of one.
TEST(Endpoint, EndsAProgramThatConnectsWithAMutex) {
  EchoTask echo(task());
  for (const TransportKind kind : {TransportKind::Grpc, TransportKind::Nearest}) {
    EndpointOptions options = client();
    options.transport = kind;
    const auto asking = make_endpoint(std::move(options));
    expect_end_with_mutex("connects", [&] { asking->connect(echo.address(), MessageLog::soon()); });
  }
}

TEST(Endpoint, EndsAProgramThatMakesItWithAMutex) {
  expect_end_with_mutex("makes an endpoint", [] { make_endpoint(client()); });
}

TEST(Endpoint, KnowsThePortThatTheSystemChose) {
  EchoTask echo(task());
  EXPECT_GT(parse_address(echo.address()).port, 0);
  EXPECT_EQ(parse_address(echo.address()).host, "localhost");
}

TEST(Endpoint, TheSecondOnOnePortFailsAndNamesTheOwner) {
  EchoTask first(task());
  EndpointOptions same = task();
  same.self.address = first.address();
  EXPECT_ERROR(Code::Unknown, fmt::format("in use by process {} (", getpid()),
               EchoTask(std::move(same)));
}

TEST(Endpoint, ThePortIsFreeAfterStop) {
  std::string address;
  for (int round = 0; round < 5; ++round) {
    EndpointOptions options = task();
    if (!address.empty()) options.self.address = address;
    EchoTask echo(std::move(options));
    address = echo.address();
    const auto asking = make_endpoint(client());
    expect_echo(*asking->connect(address, MessageLog::soon()));
    echo.endpoint().stop();
    echo.endpoint().stop();
  }
}

TEST(Endpoint, StoppingEndsConnectionsOnBothSides) {
  EchoTask echo(task());
  const auto asking = make_endpoint(client());
  const auto connection = asking->connect(echo.address(), MessageLog::soon());
  MessageLog log;
  connection->start(log.events());
  echo.endpoint().stop();
  const Status why = log.await_end();
  EXPECT_EQ(why.code, Code::Cancelled) << why;
  EXPECT_NE(why.message.find("the server was stopped"), std::string::npos) << why;
}

TEST(Endpoint, ConnectingWaitsForSomebodyToListen) {
  const std::string address = EchoTask(task()).address();
  auto connecting = std::async(std::launch::async, [&] {
    const auto asking = make_endpoint(client());
    expect_echo(*asking->connect(address, MessageLog::soon()));
  });
  EXPECT_EQ(connecting.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  EndpointOptions options = task();
  options.self.address = address;
  EchoTask echo(std::move(options));
  connecting.get();
}

// A task that starts slowly accepts a connection long before it answers. If the caller gives up and
// tries again, the task takes the end of the first connection for the loss of the caller.
TEST(Endpoint, ConnectingWaitsForALateAnswerInOneTry) {
  EndpointOptions options = task();
  options.self.address = "127.0.0.1:0";
  EchoTask echo(std::move(options));
  test::Relay relay(parse_address(echo.address()).port, test::Relay::Start::Held);
  auto connecting = std::async(std::launch::async, [&] {
    const auto asking = make_endpoint(client());
    expect_echo(*asking->connect(relay.address(), MessageLog::soon()));
  });
  // A limit of less than a second for one try would end the first one.
  EXPECT_EQ(connecting.wait_for(std::chrono::seconds(1)), std::future_status::timeout);
  relay.release();
  connecting.get();
  EXPECT_EQ(relay.accepted(), 1);
}

TEST(Endpoint, NobodyThereIsUnavailableAtTheDeadline) {
  const std::string address = EchoTask(task()).address();
  const auto asking = make_endpoint(client());
  constexpr std::chrono::milliseconds kTime{300};
  const Status status = error_of([&] { asking->connect(address, within(kTime)); });
  EXPECT_EQ(status.code, Code::Unavailable) << status;
  EXPECT_NE(
      status.message.find("no process listens at " + address + " (connection refused); tried"),
      std::string::npos)
      << status;
  test::expect_tried_for(kTime, status);
}

TEST(Endpoint, GivesUpBetweenTwoTriesWhenTheConnectionIsNoLongerWanted) {
  const std::string address = EchoTask(task()).address();
  const auto asking = make_endpoint(client());
  int asked = 0;
  EXPECT_ERROR(Code::Cancelled, "the connection to " + address + " is no longer wanted",
               asking->connect(address, MessageLog::never(), 0, [&] { return ++asked < 3; }));
  EXPECT_EQ(asked, 3);
}

// A try that is under way may have been accepted already.
TEST(Endpoint, DoesNotCutATryShortWhoseConnectionIsNoLongerWanted) {
  EchoTask echo(task());
  const auto asking = make_endpoint(client());
  expect_echo(*asking->connect(echo.address(), MessageLog::soon(), 0, [] { return false; }));
}

TEST(Endpoint, AShortageOfDescriptorsIsNotThePeersFault) {
  EchoTask echo(task());
  const auto asking = make_endpoint(client());
  {
    const NoDescriptors none;
    EXPECT_ERROR(Code::ResourceExhausted, "fewer than 8 free", make_endpoint(client()));
    EXPECT_ERROR(Code::ResourceExhausted, "no file descriptor left to reach " + echo.address(),
                 asking->connect(echo.address(), MessageLog::soon()));
  }
  expect_echo(*asking->connect(echo.address(), MessageLog::soon()));
}

TEST(Endpoint, AnUnknownNameIsSaidToBeOne) {
  const auto asking = make_endpoint(client());
  EXPECT_ERROR(Code::Unavailable, "the host name of no-such-host.invalid:1 is unknown",
               asking->connect("no-such-host.invalid:1", within(std::chrono::seconds(1))));
}

TEST(Endpoint, AnAddressMustBeOne) {
  const auto asking = make_endpoint(client());
  EXPECT_ERROR(Code::InvalidArgument, "port", asking->connect("host", MessageLog::soon()));
  EXPECT_ERROR(Code::InvalidArgument, "port", asking->connect("host:99999", MessageLog::soon()));
  for (const char* address : {"unix:/tmp/x:1", "a/b:1", "host name:1", "host:0"}) {
    EXPECT_ERROR(Code::InvalidArgument, "not a host and port",
                 asking->connect(address, MessageLog::soon()));
  }
}

TEST(Endpoint, StoppingEndsConnecting) {
  const std::string address = EchoTask(task()).address();
  const auto asking = make_endpoint(client());
  auto connecting = std::async(std::launch::async, [&] {
    return error_of([&] { asking->connect(address, MessageLog::soon()); });
  });
  EXPECT_EQ(connecting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  asking->stop();
  EXPECT_EQ(connecting.get().code, Code::Cancelled);
  EXPECT_ERROR(Code::Cancelled, "stopped", asking->connect(address, MessageLog::soon()));
}

TEST(Endpoint, EndpointsOfDifferentClustersDoNotConnect) {
  EchoTask echo(task(0xabc));
  EXPECT_ERROR(Code::FailedPrecondition, "belongs to cluster 0000000000000def",
               make_endpoint(client(0xdef))->connect(echo.address(), MessageLog::soon()));
  const auto same = make_endpoint(client(0xabc));
  expect_echo(*same->connect(echo.address(), MessageLog::soon()));
  const auto any = make_endpoint(client());
  expect_echo(*any->connect(echo.address(), MessageLog::soon()));
}

TEST(Endpoint, IsReachedInsideOfTheProcessByItsExactAddress) {
  EndpointOptions options = task();
  options.transport = TransportKind::Nearest;
  EchoTask echo(std::move(options));
  EndpointOptions near = client();
  near.transport = TransportKind::Nearest;
  const auto asking = make_endpoint(near);
  const auto direct = asking->connect(echo.address(), MessageLog::soon());
  EXPECT_EQ(direct->kind(), "in-process");
  expect_echo(*direct);
  const auto far = make_endpoint(client());
  EXPECT_EQ(far->connect(echo.address(), MessageLog::soon())->kind(), "grpc");
}

TEST(Endpoint, SharesMemoryOnOneHost) {
  for (const TransportKind transport : {TransportKind::Nearest, TransportKind::SharedMemory}) {
    EndpointOptions options = task();
    options.transport = TransportKind::Nearest;
    EchoTask echo(std::move(options));
    EndpointOptions near = client();
    near.transport = transport;
    const auto asking = make_endpoint(near);
    // The address differs from the listener's own, so the connection leaves the process.
    const int port = parse_address(echo.address()).port;
    const auto connection = asking->connect(address_text("127.0.0.1", port), MessageLog::soon());
    EXPECT_EQ(connection->kind(), "shared-memory");
    EXPECT_EQ(connection->peer().name, "/job:echo/replica:0/task:0");
    expect_echo(*connection);
  }
}

TEST(Endpoint, SharedMemoryThatIsNotOfferedIsAnErrorWhenForced) {
  EchoTask echo(task());
  EndpointOptions forced = client();
  forced.transport = TransportKind::SharedMemory;
  const auto asking = make_endpoint(forced);
  EXPECT_ERROR(Code::FailedPrecondition, "does not offer it",
               asking->connect(echo.address(), MessageLog::soon()));
  EndpointOptions near = client();
  near.transport = TransportKind::Nearest;
  const auto other = make_endpoint(near);
  EXPECT_EQ(other->connect(echo.address(), MessageLog::soon())->kind(), "grpc");
}

TEST(Endpoint, ConnectingInsideOfTheProcessCanBeForced) {
  EndpointOptions forced = client();
  forced.transport = TransportKind::InProcess;
  const auto asking = make_endpoint(forced);
  EXPECT_ERROR(Code::Unavailable, "no endpoint of this process listens",
               asking->connect("localhost:1", within(std::chrono::milliseconds(20))));
}

TEST(Endpoint, TheEnvironmentForcesAWay) {
  {
    const ScopedEnvironment variable(ScopedEnvironment::Variables{{"COHORT_TRANSPORT", "grpc"}});
    EXPECT_EQ(EndpointOptions{}.transport, TransportKind::Grpc);
  }
  {
    const ScopedEnvironment variable(ScopedEnvironment::Variables{{"COHORT_TRANSPORT", "pigeon"}});
    EXPECT_ERROR(Code::InvalidArgument, "'pigeon'; it must be", transport_from_environment());
  }
  const ScopedEnvironment variable(
      ScopedEnvironment::Variables{{"COHORT_TRANSPORT", std::nullopt}});
  EXPECT_EQ(transport_from_environment(), TransportKind::Nearest);
}

TEST(Endpoint, ListensOnLoopbackUnlessTheClusterSpansHosts) {
  EndpointOptions options = task();
  options.self.address = "some-other-machine.example:0";
  EchoTask echo(std::move(options));
  const int port = parse_address(echo.address()).port;
  const auto asking = make_endpoint(client());
  expect_echo(*asking->connect(address_text("127.0.0.1", port), MessageLog::soon()));
}

TEST(Endpoint, ListensToStrangersOnlyWhenToldInSoManyWords) {
  EndpointOptions options = task();
  options.self.address = "0.0.0.0:0";
  options.spans_hosts = true;
  EXPECT_ERROR(Code::FailedPrecondition, "Credentials::insecure", EchoTask(options));
  options.credentials.token = "a token is sent in the clear";
  EXPECT_ERROR(Code::FailedPrecondition, "Credentials::insecure", EchoTask(options));
  options.credentials.insecure = true;
  EchoTask echo(options);
}

TEST(Endpoint, DoesNotSendItsTokenAroundInTheClear) {
  EndpointOptions options = client();
  options.credentials.token = "0123456789abcdef";
  const auto asking = make_endpoint(options);
  EXPECT_ERROR(Code::FailedPrecondition, "as plain text",
               asking->connect("192.0.2.1:2222", MessageLog::soon()));
}

TEST(Endpoint, TellsItsStatus) {
  EndpointOptions options = task(5);
  options.details = [] { return "12 sessions"; };
  EchoTask echo(std::move(options));
  const TaskStatus status = ask_status(echo.address(), {}, MessageLog::soon());
  EXPECT_EQ(status.peer.name, "/job:echo/replica:0/task:0");
  EXPECT_EQ(status.peer.incarnation, 7u);
  EXPECT_EQ(status.peer.address, echo.address());
  EXPECT_EQ(status.cluster, 5u);
  EXPECT_EQ(status.protocol, kProtocolVersion);
  EXPECT_FALSE(status.version.empty());
  EXPECT_GE(status.seconds_up, 0);
  EXPECT_EQ(status.details, "12 sessions");
}

TEST(Endpoint, AStatusNobodyCanGiveIsAnError) {
  const std::string address = EchoTask(task()).address();
  EXPECT_ERROR(Code::Unavailable, "no process listens at " + address,
               ask_status(address, {}, MessageLog::soon()));
  EndpointOptions options = task();
  options.details = []() -> std::string { throw Error(Code::Internal, std::string(100'000, 'x')); };
  EchoTask echo(std::move(options));
  const Status status = error_of([&] { ask_status(echo.address(), {}, MessageLog::soon()); });
  EXPECT_FALSE(status.ok());
  EXPECT_LT(status.message.size(), 5000u);
  const auto asking = make_endpoint(client());
  expect_echo(*asking->connect(echo.address(), MessageLog::soon()));
}

TEST(Endpoint, ManyClientsConnectAtOnce) {
  EchoTask echo(task());
  std::vector<std::jthread> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back([&] {
      const auto asking = make_endpoint(client());
      expect_echo(*asking->connect(echo.address(), MessageLog::soon()));
    });
  }
}

TEST(Endpoint, OneEndpointHasManyConnections) {
  EchoTask first(task());
  EchoTask second(task());
  const auto asking = make_endpoint(client());
  std::vector<std::jthread> users;
  for (int i = 0; i < 8; ++i) {
    users.emplace_back([&, i] {
      const std::string& address = i % 2 == 0 ? first.address() : second.address();
      for (int round = 0; round < 5; ++round) {
        expect_echo(*asking->connect(address, MessageLog::soon()));
      }
    });
  }
}

}  // namespace
}  // namespace cohort::internal
