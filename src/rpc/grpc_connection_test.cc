#include <future>
#include <thread>

#include "rpc/certificates.h"
#include "rpc/grpc_endpoint.h"
#include "support/connection_conformance.h"
#include "support/eventually.h"
#include "support/message_log.h"
#include "support/process.h"

namespace cohort::internal {
namespace {

// Two endpoints of this process that speak by gRPC all the same.
struct Pair {
  explicit Pair(const Credentials& of_a = {}, const Credentials& of_b = {})
      : b(make_endpoint({.self = {.name = "b", .address = "localhost:0"},
                         .credentials = of_b,
                         .transport = TransportKind::Grpc},
                        [this](std::shared_ptr<Connection> connection) {
                          accepted.set_value(std::move(connection));
                        })),
        a(make_endpoint(
            {.self = {.name = "a"}, .credentials = of_a, .transport = TransportKind::Grpc})) {}

  std::promise<std::shared_ptr<Connection>> accepted;
  std::unique_ptr<Endpoint> b;
  std::unique_ptr<Endpoint> a;
};

ConnectedPair connect(const std::shared_ptr<Pair>& pair) {
  auto a = pair->a->connect(pair->b->self().address, MessageLog::soon());
  auto b = pair->accepted.get_future().get();
  return {pair, std::move(a), std::move(b)};
}

constexpr size_t kLimit = size_t{96} << 20;  // both queues, and what gRPC holds

ConnectionWay by_grpc() {
  return {.name = "Grpc",
          .kind = "grpc",
          .connect = [] { return connect(std::make_shared<Pair>()); },
          .limit_bytes = kLimit};
}

ConnectionWay by_grpc_and_tls() {
  const auto authority = std::make_shared<RunAuthority>();
  return {.name = "GrpcWithTls",
          .kind = "grpc",
          .connect =
              [authority] {
                return connect(std::make_shared<Pair>(authority->issue({.name = "a"}),
                                                      authority->issue({.name = "b"})));
              },
          .limit_bytes = kLimit};
}

INSTANTIATE_TEST_SUITE_P(Network, ConnectionConformance,
                         testing::Values(by_grpc(), by_grpc_and_tls()),
                         testing::PrintToStringParamName());

// More than the caller's side takes without a reader, so that it has stopped to read.
TEST(GrpcConnection, StoppingDoesNotWaitForWhoDoesNotRead) {
  const auto pair = std::make_shared<Pair>();
  ConnectedPair connected = connect(pair);
  const Buffer payload = patterned_payload(size_t{8} << 20, 0);
  Status end;
  std::jthread sender([&] {
    end = capture_status([&] {
      for (;;) connected.b->send({"x", {payload}});
    });
  });
  while (connected.b->traffic().bytes_sent < kLimit / 2) std::this_thread::yield();
  pair->a->stop();
  sender.join();
  pair->b->stop();
  // The stop ended the connection, and not that the silence of the other side was noticed.
  EXPECT_EQ(end.message.find("did not answer any more"), std::string::npos) << end;
}

// The other process ends while this side cannot read: a connection to `busy` holds the one thread
// that reads.
TEST(GrpcConnection, DeliversAllThatAProcessSentBeforeItEnded) {
  test::Process peer({RPC_PEER, "127.0.0.1:0", "leave"});
  ASSERT_TRUE(test::eventually([&] { return peer.output().ends_with('\n'); }));
  std::promise<std::shared_ptr<Connection>> accepted;
  const auto busy = make_endpoint(
      {.self = {.name = "busy", .address = "localhost:0"}, .transport = TransportKind::Grpc},
      [&](std::shared_ptr<Connection> connection) { accepted.set_value(std::move(connection)); });
  const auto self = make_endpoint({.self = {.name = "self"}, .transport = TransportKind::Grpc});
  const std::string output = peer.output();
  const auto connection = self->connect(output.substr(0, output.find(' ')), MessageLog::soon());
  const auto holder = self->connect(busy->self().address, MessageLog::soon());
  MessageLog log;
  connection->start(log.events());
  holder->start({[&](const Message&) {
                   connection->send({"leave"});
                   peer.wait(std::chrono::milliseconds(300));
                 },
                 [](const Status&) {}});
  accepted.get_future().get()->send({"hold"});
  const Status end = log.await_end();
  EXPECT_EQ(log.count(), 40u) << end;
  EXPECT_NE(end.message.find("the server was stopped"), std::string::npos) << end;
}

}  // namespace
}  // namespace cohort::internal
