#include "rpc/grpc_settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "rpc/grpc_endpoint.h"
#include "support/eventually.h"

namespace cohort::internal {
namespace {

int64_t count_descriptors() {
  const std::filesystem::directory_iterator first("/proc/self/fd");
  return std::distance(first, std::filesystem::directory_iterator());
}

// Waits until the channel connects: a moment later it may have connected.
void begin_to_connect(grpc::Channel& channel) {
  while (channel.GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_IDLE) std::this_thread::yield();
}

TEST(UnfinishedChannels, LeaveNoSocketsBehind) {
  const auto server =
      make_endpoint({.self = {.name = "server", .incarnation = 1, .address = "127.0.0.1:0"},
                     .transport = TransportKind::Grpc},
                    [](const std::shared_ptr<Connection>&) {});
  // At different moments: a connection takes about a millisecond.
  const auto connect_and_drop = [&](std::chrono::microseconds after) {
    const auto channel = make_channel(server->self().address, {});
    begin_to_connect(*channel);
    const auto drop = std::chrono::steady_clock::now() + after;
    while (std::chrono::steady_clock::now() < drop) std::this_thread::yield();
  };
  connect_and_drop({});  // the first channel makes gRPC open descriptors that it keeps
  const auto is_flat = [before = count_descriptors()] { return count_descriptors() <= before + 2; };
  for (int i = 0; i < 400; ++i) connect_and_drop(std::chrono::microseconds(5 * i));
  EXPECT_TRUE(test::eventually(is_flat, std::chrono::seconds(20))) << count_descriptors();
}

}  // namespace
}  // namespace cohort::internal
