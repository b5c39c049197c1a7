#include "transport/shared_memory.h"

#include <future>

#include "support/connection_conformance.h"
#include "support/expect_error.h"
#include "support/message_log.h"
#include "support/no_descriptors.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

// Both ends in this process, each with its own mapping of the memory.
ConnectedPair connected(size_t arena_bytes) {
  auto listener = std::make_shared<SharedMemoryListener>(arena_bytes);
  std::promise<std::shared_ptr<Connection>> arrived;
  const std::string nonce =
      listener->expect({.name = "a"}, {.name = "b"}, MessageLog::soon(),
                       [&](auto connection) { arrived.set_value(std::move(connection)); });
  auto b = connect_shared_memory(listener->name(), nonce, {.name = "b"}, {.name = "a"},
                                 MessageLog::soon());
  return {listener, arrived.get_future().get(), std::move(b)};
}

ConnectionWay shared_memory(std::string name, size_t arena_bytes) {
  return {.name = std::move(name),
          .kind = "shared-memory",
          .connect = [arena_bytes] { return connected(arena_bytes); },
          .limit_bytes = arena_bytes};
}
INSTANTIATE_TEST_SUITE_P(SharedMemory, ConnectionConformance,
                         testing::Values(shared_memory("SmallArena", size_t{1} << 20),
                                         shared_memory("Arena", size_t{96} << 20)),
                         testing::PrintToStringParamName());

TEST(SharedMemory, PayloadsAreReadInPlace) {
  ConnectedPair pair = connected(size_t{8} << 20);
  MessageLog log;
  pair.b->start(log.events());
  const void* first = nullptr;
  for (int i = 0; i < 5; ++i) {  // the block that comes back is used again
    pair.a->send(test_message("x", {size_t{3} << 20}));
    ASSERT_TRUE(log.await(1));
    const std::vector<Message> messages = log.take();
    expect_message(messages[0], "x", {size_t{3} << 20});
    const void* memory = messages[0].payloads[0].bytes.data();
    if (i == 0) first = memory;
    EXPECT_EQ(memory, first);
  }
  pair = {};
}

TEST(SharedMemory, SmallMessagesAreCopied) {
  ConnectedPair pair = connected(size_t{1} << 20);
  MessageLog log;
  pair.b->start(log.events());
  constexpr size_t kCount = 20000;  // none of them holds a block
  for (size_t i = 0; i < kCount; ++i) pair.a->send(test_message("x", {100}));
  ASSERT_TRUE(log.await(kCount));
  pair = {};
  expect_message(log.take().back(), "x", {100});
}

TEST(SharedMemory, ANonceIsGoodForOnePeerOnce) {
  SharedMemoryListener listener;
  std::promise<std::shared_ptr<Connection>> arrived;
  const std::string nonce =
      listener.expect({.name = "a"}, {.name = "b"}, MessageLog::soon(),
                      [&](auto connection) { arrived.set_value(std::move(connection)); });
  const auto connect = [&](const std::string& with) {
    return connect_shared_memory(listener.name(), with, {.name = "b"}, {.name = "a"},
                                 MessageLog::soon());
  };
  EXPECT_ERROR(Code::PermissionDenied, "nonce", connect(std::string(32, '0')));
  EXPECT_ERROR(Code::InvalidArgument, "32 characters", connect("short"));
  const auto b = connect(nonce);
  EXPECT_EQ(arrived.get_future().get()->peer().name, "b");
  EXPECT_ERROR(Code::PermissionDenied, "nonce", connect(nonce));
}

TEST(SharedMemory, ANonceEndsInTime) {
  SharedMemoryListener listener;
  const std::string nonce = listener.expect({}, {}, std::chrono::steady_clock::now(),
                                            [](const auto&) { ADD_FAILURE() << "too late"; });
  EXPECT_ERROR(Code::PermissionDenied, "nonce",
               connect_shared_memory(listener.name(), nonce, {}, {}, MessageLog::soon()));
}

TEST(SharedMemory, SaysThatNobodyIsThere) {
  EXPECT_ERROR(
      Code::Unavailable, "cannot connect to 'cohort-no'",
      connect_shared_memory("cohort-no", std::string(32, '0'), {}, {}, MessageLog::soon()));
}

// Unavailable would say that a peer is lost, for which callers wait.
TEST(UnixSocket, SaysWhichLocalFailureThereIs) {
  const std::string name = "cohort-test-" + std::to_string(::getpid());
  const FileDescriptor listener = listen_unix(name);
  EXPECT_ERROR(Code::AlreadyExists, "cannot listen at '" + name + "': Address already in use",
               listen_unix(name));
  const NoDescriptors none;
  EXPECT_ERROR(Code::ResourceExhausted, "cannot create a socket: Too many open files",
               listen_unix("another-" + name));
  EXPECT_ERROR(Code::ResourceExhausted, "cannot create a socket: Too many open files",
               connect_unix(name));
}

TEST(SharedMemory, AServerThatSaysNothingIsGivenUp) {
  const std::string name = "cohort-test-" + std::to_string(::getpid());
  const FileDescriptor silent = listen_unix(name);
  EXPECT_ERROR(
      Code::DeadlineExceeded, "sent nothing in time",
      connect_shared_memory(name, std::string(32, '0'), {}, {},
                            std::chrono::steady_clock::now() + std::chrono::milliseconds(20)));
}

TEST(SharedMemory, ManyStrangersCauseOneLogLine) {
  testing::internal::CaptureStderr();
  {
    SharedMemoryListener listener;
    for (int i = 0; i < 100; ++i) {
      const FileDescriptor stranger = connect_unix(listener.name());
      send_with_descriptors(stranger, std::string(i + 1, 'x'), {});
    }
    const std::string nonce = listener.expect({}, {}, MessageLog::soon(), [](const auto&) {});
    EXPECT_NE(connect_shared_memory(listener.name(), nonce, {}, {}, MessageLog::soon()), nullptr);
  }
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_LE(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
}

TEST(SharedMemory, GarbageAndSilenceHoldUpNobody) {
  const auto listener = std::make_unique<SharedMemoryListener>();
  std::vector<FileDescriptor> visitors;
  for (int i = 0; i < 20; ++i) {
    visitors.push_back(connect_unix(listener->name()));
    if (i % 2 == 0) send_with_descriptors(visitors.back(), std::string(i * 10 + 1, 'x'), {});
  }
  std::promise<void> arrived;
  const std::string nonce =
      listener->expect({}, {}, MessageLog::soon(), [&](const auto&) { arrived.set_value(); });
  EXPECT_NE(connect_shared_memory(listener->name(), nonce, {}, {}, MessageLog::soon()), nullptr);
  // The last visitor came before and has said nothing, and the listener still waits for it.
  const int silent[] = {visitors.back().get()};
  EXPECT_FALSE(wait_readable(silent, {})[0]);
  arrived.get_future().get();
}

}  // namespace
}  // namespace cohort::internal
