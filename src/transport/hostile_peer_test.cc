// The other process writes anything into the shared memory: the connection ends with an error that
// says so, and nothing else happens.

#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>
#include <future>

#include "support/expect_error.h"
#include "support/message_log.h"
#include "transport/shared_memory.h"
#include "transport/unix_socket.h"

namespace cohort::internal {
namespace {

constexpr size_t kArena = size_t{1} << 20;

class HostilePeer : public testing::Test {
 protected:
  HostilePeer() {
    SharedMemoryListener listener(kArena);
    std::promise<std::shared_ptr<Connection>> arrived;
    const std::string nonce =
        listener.expect({.name = "victim"}, {.name = "hostile"}, MessageLog::soon(),
                        [&](auto connection) { arrived.set_value(std::move(connection)); });
    peer_ = request_memory(listener.name(), nonce, MessageLog::soon());
    victim_ = arrived.get_future().get();
  }
  ~HostilePeer() override { victim_.reset(); }

  SharedDirection& to_victim() { return peer_.mapping->direction(1); }
  SharedDirection& from_victim() { return peer_.mapping->direction(0); }

  // Puts a record into the ring by hand.
  void write(uint64_t length, const void* bytes, size_t size) {
    std::memcpy(to_victim().ring, &length, sizeof(length));
    std::memcpy(to_victim().ring + sizeof(length), bytes, size);
    to_victim().tail.store((sizeof(length) + size + 7) / 8 * 8);
  }
  void write(const SharedRecord& record) { write(sizeof(record), &record, sizeof(record)); }

  // How the victim ends.
  Status outcome() {
    victim_->start(log_.events());
    return log_.await_end();
  }
  void expect_malformed(std::string_view what) {
    const Status why = outcome();
    EXPECT_EQ(why.code, Code::DataLoss) << why;
    EXPECT_NE(why.message.find(what), std::string::npos) << why;
    EXPECT_EQ(log_.count(), 0u);
    EXPECT_ERROR(Code::DataLoss, what, victim_->send({"x"}));
  }

  SharedParts peer_;
  MessageLog log_;
  std::shared_ptr<Connection> victim_;
};

TEST_F(HostilePeer, APositionFarAway) {
  to_victim().tail.store(uint64_t{1} << 60);
  expect_malformed("a position in the ring");
}
TEST_F(HostilePeer, APositionInsideOfALength) {
  to_victim().tail.store(3);
  expect_malformed("a position in the ring");
}
TEST_F(HostilePeer, ARecordThatIsTooLong) {
  write(UINT64_MAX, "", 0);
  expect_malformed("a record's length");
}
TEST_F(HostilePeer, ARecordThatIsLongerThanWhatIsThere) {
  write(100, "", 0);
  expect_malformed("a record's length");
}
TEST_F(HostilePeer, HalfARecord) {
  write(5, "12345", 5);
  expect_malformed("half a record");
}
TEST_F(HostilePeer, ARecordOfNoKind) {
  write({.kind = 99});
  expect_malformed("no kind");
}
TEST_F(HostilePeer, ABlockOutsideOfTheArena) {
  write({.kind = SharedRecord::Whole, .offset = kArena, .size = 1});
  expect_malformed("a block at");
}
TEST_F(HostilePeer, ABlockThatWrapsAround) {
  write({.kind = SharedRecord::Whole, .offset = 64, .size = UINT64_MAX - 63});
  expect_malformed("a block at");
}
TEST_F(HostilePeer, ABlockThatIsNotAligned) {
  write({.kind = SharedRecord::Whole, .offset = 1, .size = 64});
  expect_malformed("a block at");
}
TEST_F(HostilePeer, AMessageWithoutABeginning) {
  write({.kind = SharedRecord::Whole, .size = 4096, .meta_size = 15});
  expect_malformed("without a beginning");
}
TEST_F(HostilePeer, AMessageInsideOfItsDescription) {
  write({.kind = SharedRecord::Whole, .size = 4096, .meta_size = 5000});
  expect_malformed("inside its description");
}
TEST_F(HostilePeer, MorePayloadsThanTheirDescription) {
  const uint64_t counts[] = {UINT64_MAX / 8, 0};
  std::memcpy(peer_.mapping->arena(1).data(), counts, sizeof(counts));
  write({.kind = SharedRecord::Whole, .size = 4096, .meta_size = 64});
  expect_malformed("not as long as it says");
}
TEST_F(HostilePeer, APayloadThatIsLongerThanItsMessage) {
  const uint64_t meta[] = {1, 0, UINT64_MAX - 10};
  std::memcpy(peer_.mapping->arena(1).data(), meta, sizeof(meta));
  write({.kind = SharedRecord::Whole, .size = 4096, .meta_size = sizeof(meta)});
  expect_malformed("longer than its message");
}
TEST_F(HostilePeer, APartOfNoMessage) {
  write({.kind = SharedRecord::Part, .size = 64});
  expect_malformed("a part of no message");
}
TEST_F(HostilePeer, AMessageThatNoMemoryHolds) {
  write({.kind = SharedRecord::Announce, .size = UINT64_MAX / 2, .meta_size = 16});
  EXPECT_EQ(outcome().code, Code::ResourceExhausted);
}
TEST_F(HostilePeer, BlocksThatItNeverHad) {
  from_victim().returns[0].store(7);
  from_victim().returned.store(1);
  EXPECT_ERROR(Code::DataLoss, "block 7", victim_->send(test_message("x", {10000})));
}
TEST_F(HostilePeer, MoreBlocksThanThereAre) {
  from_victim().returned.store(UINT64_MAX / 2);
  EXPECT_ERROR(Code::DataLoss, "more blocks than", victim_->send(test_message("x", {10000})));
}
TEST_F(HostilePeer, MoreTakenThanWasSent) {
  from_victim().head.store(8);
  EXPECT_ERROR(Code::DataLoss, "taken more than was sent", victim_->send({"x"}));
}
TEST_F(HostilePeer, ACloseStatusThatIsNone) {
  std::memset(to_victim().close_status, 0xff, sizeof(to_victim().close_status));
  to_victim().close_status_size.store(UINT32_MAX);
  to_victim().closed.store(1);
  EXPECT_EQ(outcome().code, Code::DataLoss);
}
TEST_F(HostilePeer, AttendanceThatIsNone) {
  from_victim().foreground.store(77);
  from_victim().background.store(77);
  victim_->send({"x"});
  peer_ = {};
  EXPECT_EQ(outcome().code, Code::Unavailable);
}

// What the connecting side checks before it touches the memory.
void offer(int memory, std::string_view expected) {
  const std::string name = "cohort-hostile-" + std::to_string(::getpid());
  const FileDescriptor listener = listen_unix(name);
  auto connecting = std::async(std::launch::async, [&] {
    return error_of([&] {
      connect_shared_memory(name, std::string(kNonceBytes, '0'), {}, {}, MessageLog::soon());
    });
  });
  const int waited[] = {listener.get()};
  wait_readable(waited, MessageLog::soon());
  const FileDescriptor socket = accept_unix(listener);
  const auto [ours, theirs] = unix_pair();
  const int offered[] = {memory, theirs.get(), theirs.get()};
  send_with_descriptors(socket, "cohort-memory 01", offered);
  const Status outcome = connecting.get();
  EXPECT_EQ(outcome.code, Code::DataLoss);
  EXPECT_NE(outcome.message.find(expected), std::string::npos) << outcome;
}

TEST(HostileListener, MemoryWhoseSizeCouldChangeIsRefused) {
  const FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), 4 << 20), 0);
  offer(memory.get(), "not sealed");
}
TEST(HostileListener, MemoryThatIsTooSmallIsRefused) {
  const FileDescriptor memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), 8192), 0);
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  offer(memory.get(), "not a valid size");
}
TEST(HostileListener, SomethingThatIsNoMemoryIsRefused) {
  const auto [a, b] = unix_pair();
  offer(a.get(), "not sealed");
}

}  // namespace
}  // namespace cohort::internal
