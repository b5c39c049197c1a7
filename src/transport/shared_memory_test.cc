#include "transport/shared_memory.h"

#include <future>

#include "support/expect_error.h"
#include "support/message_log.h"
#include "transport/connection_conformance.h"
#include "transport/shared_handshake.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

// Both ends in this process, each with its own mapping of the memory.
ConnectedPair connected(size_t arena_bytes) {
  auto listener = std::make_shared<SharedMemoryListener>(SharedMemoryOptions{arena_bytes});
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

}  // namespace
}  // namespace cohort::internal
