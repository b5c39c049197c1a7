#include "transport/in_process.h"

#include <future>

#include "support/connection_conformance.h"
#include "support/expect_error.h"
#include "support/in_process_endpoint.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

ConnectionWay in_process() {
  constexpr size_t kLimit = size_t{16} << 20;
  return {.name = "InProcess",
          .kind = "in-process",
          .connect =
              [] {
                auto [a, b] = connect_in_process({.name = "a"}, {.name = "b"}, {.bytes = kLimit});
                return ConnectedPair{{}, std::move(a), std::move(b)};
              },
          .limit_bytes = kLimit};
}
INSTANTIATE_TEST_SUITE_P(InProcess, ConnectionConformance, testing::Values(in_process()),
                         testing::PrintToStringParamName());

TEST(InProcessConnection, SharesPayloads) {
  MessageLog log;
  auto [a, b] = connect_in_process({.name = "a"}, {.name = "b"});
  b->start(log.events());
  Message message = test_message("x", {5});
  const auto* memory = message.payloads[0].bytes.data();
  a->send(std::move(message));
  ASSERT_TRUE(log.await(1));
  EXPECT_EQ(log.take()[0].payloads[0].bytes.data(), memory);
  b.reset();
}

// A task that keeps its connections and answers every message with itself.
struct EchoTask {
  EchoTask(InProcessNetwork& network, std::string address)
      : endpoint(make_in_process_endpoint(
            network, {.name = "/job:echo/task:0", .incarnation = 7, .address = std::move(address)},
            [this](std::shared_ptr<Connection> connection) {
              Connection& back = *connection;
              connection->start({[&back](Message message) { back.send(std::move(message)); },
                                 [](const Status&) {}});
              const std::lock_guard lock(mutex);
              connections.push_back(std::move(connection));
            })) {}
  std::mutex mutex;
  std::vector<std::shared_ptr<Connection>> connections;
  std::unique_ptr<Endpoint> endpoint;
};

TEST(InProcessEndpoint, ConnectsByAddress) {
  MessageLog log;
  InProcessNetwork network;
  EchoTask task(network, "host:1");
  const auto client = make_in_process_endpoint(network, {.name = "client"});
  const auto connection = client->connect("host:1", MessageLog::soon());
  EXPECT_EQ(connection->peer().name, "/job:echo/task:0");
  EXPECT_EQ(connection->peer().incarnation, 7u);
  connection->start(log.events());
  connection->send({"hello"});
  EXPECT_TRUE(log.await(1));
  task.endpoint->stop();
  const Status why = log.await_end();
  EXPECT_EQ(why.code, Code::Cancelled);
  EXPECT_NE(why.message.find("the server was stopped"), std::string::npos);
}

TEST(InProcessEndpoint, WaitsForWhoListensLater) {
  InProcessNetwork network;
  const auto client = make_in_process_endpoint(network, {.name = "client"});
  auto connecting =
      std::async(std::launch::async, [&] { return client->connect("host:1", MessageLog::soon()); });
  const EchoTask task(network, "host:1");
  EXPECT_EQ(connecting.get()->peer().name, "/job:echo/task:0");
}

TEST(InProcessEndpoint, SaysWhoIsMissing) {
  InProcessNetwork network;
  const auto client = make_in_process_endpoint(network, {.name = "client"});
  EXPECT_ERROR(Code::Unavailable, "host:1",
               client->connect("host:1", std::chrono::steady_clock::now()));
  EXPECT_EQ(network.try_connect("host:1", {.name = "client"}), nullptr);
}

TEST(InProcessEndpoint, AnAddressHasOneListener) {
  InProcessNetwork network;
  auto first = std::make_unique<EchoTask>(network, "host:1");
  EXPECT_ERROR(Code::AlreadyExists, "host:1", EchoTask(network, "host:1"));
  first.reset();
  EXPECT_NO_THROW(EchoTask(network, "host:1"));
}

TEST(InProcessEndpoint, DroppingAConnectionRefusesIt) {
  MessageLog log;
  InProcessNetwork network;
  const auto task = make_in_process_endpoint(network, {.name = "task", .address = "host:1"},
                                             [](const std::shared_ptr<Connection>&) {});
  const auto client = make_in_process_endpoint(network, {.name = "client"});
  const auto connection = client->connect("host:1", MessageLog::soon());
  connection->start(log.events());
  EXPECT_EQ(log.await_end().code, Code::Unavailable);
}

TEST(InProcessEndpoint, StoppedOnceItConnectsNoMore) {
  InProcessNetwork network;
  EchoTask task(network, "host:1");
  const auto client = make_in_process_endpoint(network, {.name = "client"});
  client->stop();
  const auto connection = client->connect("host:1", MessageLog::soon());
  EXPECT_ERROR(Code::Cancelled, "closed the connection", connection->send({"x"}));
}

}  // namespace
}  // namespace cohort::internal
