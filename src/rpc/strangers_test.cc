// Whatever strangers send to the port, the server goes on.

#include "support/strangers.h"

#include <algorithm>
#include <atomic>
#include <random>

#include "rpc/certificates.h"
#include "rpc/grpc_endpoint.h"
#include "support/expect_error.h"
#include "support/message_log.h"
#include "topology/address.h"

namespace cohort::internal {
namespace {

using test::kPreface;
using test::random_bytes;
using test::RawSocket;

class Strangers : public testing::TestWithParam<bool> {
 protected:
  Strangers()
      : server_(make_endpoint(options("/job:ps/replica:0/task:0", "127.0.0.1:0"),
                              [this](std::shared_ptr<Connection> connection) {
                                Connection& back = *connection;
                                connection->start(
                                    {[&back](Message message) { back.send(std::move(message)); },
                                     [](const Status&) {}});
                                ++accepted_;
                                const std::lock_guard lock(mutex_);
                                connections_.push_back(std::move(connection));
                              })),
        port_(parse_address(server_->self().address).port),
        client_(make_endpoint(options("client", ""))),
        friend_(client_->connect(server_->self().address, MessageLog::soon())) {
    friend_->start(log_.events());
  }
  ~Strangers() override {
    friend_.reset();
    client_->stop();
    server_->stop();
  }

  EndpointOptions options(const std::string& name, const std::string& address) const {
    return {.self = {.name = name, .address = address},
            .credentials = GetParam() ? authority_.issue({.name = name}) : Credentials{},
            .transport = TransportKind::Grpc};
  }

  // The connection that was there goes on, and new ones are let in.
  void expect_alive() {
    friend_->send({"still there?"});
    EXPECT_TRUE(log_.await(1));
    log_.take();
    const auto another = make_endpoint(options("client", ""));
    another->connect(server_->self().address, MessageLog::soon());
  }

  const RunAuthority authority_;
  std::atomic<int> accepted_ = 0;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_;
  MessageLog log_;
  std::unique_ptr<Endpoint> server_;
  const int port_;
  std::unique_ptr<Endpoint> client_;
  std::shared_ptr<Connection> friend_;
};

TEST_P(Strangers, SayAnything) {
  for (const std::string& banner : test::banners()) {
    const RawSocket polite(port_);
    polite.send(banner);
    polite.await_answer();
    const RawSocket half(port_);
    half.send(banner);
    half.half_close();
    const RawSocket rude(port_);
    rude.send(banner);
    rude.make_rude();
  }
  expect_alive();
  EXPECT_EQ(accepted_, 2);
}

TEST_P(Strangers, SayRandomBytes) {
  std::mt19937_64 random(4711);
  for (int i = 0; i < 100; ++i) {
    const RawSocket stranger(port_);
    stranger.send(i % 2 == 0 ? random_bytes(random, random() % 5000)
                             : kPreface + random_bytes(random, random() % 300));
    if (i % 10 == 0) stranger.await_answer();
  }
  expect_alive();
  EXPECT_EQ(accepted_, 2);
}

TEST_P(Strangers, LeaveTheLogAlone) {
  testing::internal::CaptureStderr();
  for (const std::string& banner : test::banners()) {
    const RawSocket stranger(port_);
    stranger.send(banner);
    stranger.await_answer();
  }
  for (int i = 0; i < 300; ++i) RawSocket(port_).make_rude();
  expect_alive();
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
}

TEST_P(Strangers, ConnectAndResetAThousandTimes) {
  for (int i = 0; i < 1000; ++i) RawSocket(port_).make_rude();
  expect_alive();
}

// While they dawdle, others are served.
TEST_P(Strangers, DawdleOneByteAtATime) {
  std::vector<std::unique_ptr<RawSocket>> slow;
  for (int i = 0; i < 50; ++i) slow.push_back(std::make_unique<RawSocket>(port_));
  for (const char byte : std::string_view(kPreface).substr(0, 5)) {
    for (const auto& stranger : slow) stranger->send({&byte, 1});
    expect_alive();
  }
}

INSTANTIATE_TEST_SUITE_P(AtAPort, Strangers, testing::Bool(), [](const auto& chosen) {
  return chosen.param ? std::string("WithTls") : std::string("WithoutTls");
});

}  // namespace
}  // namespace cohort::internal
