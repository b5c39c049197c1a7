#include "support/faults.h"

#include <future>

#include "support/expect_error.h"
#include "support/in_process_endpoint.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

// What arrives of 1000 messages.
std::vector<std::string> arrived(uint64_t seed, FaultChances chances) {
  MessageLog log;
  auto [a, b] = connect_in_process({.name = "a"}, {.name = "b"});
  b->start(log.events());
  FaultyConnection faulty(a, std::make_shared<Faults>(seed, chances));
  const Status outcome = capture_status([&] {
    for (int i = 0; i < 1000; ++i) faulty.send({std::to_string(i)});
  });
  faulty.close({Code::Aborted, "[Test] finished"});
  (void)log.await_end();
  std::vector<std::string> headers;
  for (const Message& message : log.take()) headers.push_back(message.header);
  b.reset();
  return headers;
}

TEST(Faults, TheSeedDecides) {
  const FaultChances chances{.drop = 0.1, .duplicate = 0.1};
  EXPECT_EQ(arrived(1, chances), arrived(1, chances));
  EXPECT_NE(arrived(1, chances), arrived(2, chances));
}

TEST(Faults, HappenAsOftenAsAsked) {
  EXPECT_EQ(arrived(1, {}).size(), 1000u);
  EXPECT_NEAR(static_cast<double>(arrived(1, {.drop = 0.2}).size()), 800, 60);
  EXPECT_NEAR(static_cast<double>(arrived(1, {.duplicate = 0.2}).size()), 1200, 60);
  EXPECT_LT(arrived(1, {.cut = 0.05}).size(), 500u);
  EXPECT_EQ(arrived(1, {.delay = 0.01}).size(), 1000u);
}

TEST(Faults, SilenceIsInBothDirections) {
  InProcessNetwork network;
  const auto faults = std::make_shared<Faults>(1, FaultChances{});
  MessageLog at_task;
  MessageLog at_client;
  std::shared_ptr<Connection> accepted;
  std::promise<void> ready;
  auto task = make_in_process_endpoint(network, {.name = "task", .address = "x:1"},
                                       with_faults(
                                           [&](auto connection) {
                                             accepted = std::move(connection);
                                             accepted->start(at_task.events());
                                             ready.set_value();
                                           },
                                           faults));
  const auto client = make_in_process_endpoint(network, {.name = "client"});
  const auto connection = client->connect("x:1", MessageLog::soon());
  connection->start(at_client.events());
  ready.get_future().get();
  connection->send({"1"});
  ASSERT_TRUE(at_task.await(1));
  faults->fall_silent();
  connection->send({"2"});
  accepted->send({"3"});
  faults->fall_silent(false);
  accepted->send({"4"});
  ASSERT_TRUE(at_client.await(1));
  EXPECT_EQ(at_client.take()[0].header, "4");
  task->stop();
}

TEST(Faults, EndpointsHaveThemToo) {
  InProcessNetwork network;
  const auto task =
      make_in_process_endpoint(network, {.name = "task", .address = "x:1"}, [](const auto&) {});
  FaultyEndpoint client(make_in_process_endpoint(network, {.name = "client"}),
                        std::make_shared<Faults>(1, FaultChances{.cut = 1}));
  EXPECT_EQ(client.self().name, "client");
  const auto connection = client.connect("x:1", MessageLog::soon());
  EXPECT_EQ(connection->peer().name, "task");
  const Status outcome = error_of([&] { connection->send({"x"}); });
  EXPECT_TRUE(outcome.code == Code::Cancelled || outcome.code == Code::Unavailable) << outcome;
}

}  // namespace
}  // namespace cohort::internal
