// How connections end, and what that does to those who use them.

#include <atomic>
#include <future>
#include <thread>

#include "support/connection_conformance.h"
#include "support/expect_error.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

TEST_P(ConnectionConformance, CloseTellsThePeerAfterEverythingThatWasSent) {
  MessageLog log;
  pair_.a->send(test_message("1", {GetParam().limit_bytes / 4}));
  pair_.a->send({"2"});
  pair_.a->close({Code::Aborted, "[Test] enough", "/job:worker/task:3", true,
                  std::make_shared<const Status>(Status{Code::DataLoss, "[Test] the root"})});
  pair_.b->start(log.events());
  const Status why = log.await_end();
  EXPECT_EQ(why.code, Code::Aborted);
  EXPECT_EQ(why.message, "[Test] enough");
  EXPECT_EQ(why.origin, "/job:worker/task:3");
  EXPECT_TRUE(why.derived);
  EXPECT_EQ(why.root().message, "[Test] the root");
  EXPECT_EQ(log.count(), 2u);
  EXPECT_ERROR(Code::Aborted, "[Test] enough", pair_.b->send({"x"}));
  EXPECT_ERROR(Code::Aborted, "[Test] enough",
               pair_.b->deliver_until([] { return false; }, MessageLog::soon()));
  pair_ = {};
}

TEST_P(ConnectionConformance, WhoClosesIsTold) {
  MessageLog log;
  pair_.a->start(log.events());
  pair_.a->close(kFinished);
  const Status why = log.await_end();
  EXPECT_EQ(why.code, Code::Cancelled) << why;
  EXPECT_EQ(why.root().message, kFinished.message);
  EXPECT_ERROR(Code::Cancelled, "closed the connection to b", pair_.a->send({"x"}));
  EXPECT_ERROR(Code::Cancelled, "closed the connection to b",
               pair_.a->deliver_until([] { return false; }, MessageLog::soon()));
  pair_.a->close({Code::Internal, "[Test] once more"});
  EXPECT_ERROR(Code::Cancelled, "closed the connection to b", pair_.a->send({"x"}));
  pair_ = {};
}

TEST_P(ConnectionConformance, ClosingWithSuccessIsAnEndAllTheSame) {
  MessageLog log;
  pair_.b->start(log.events());
  pair_.a->close({});
  EXPECT_EQ(log.await_end().code, Code::Cancelled);
  EXPECT_ERROR(Code::Cancelled, "closed the connection", pair_.b->send({"x"}));
  pair_ = {};
}

TEST_P(ConnectionConformance, NobodySendsToWhoHasClosed) {
  MessageLog log;
  pair_.a->start(log.events());
  pair_.b->close(kFinished);
  EXPECT_EQ(log.await_end().message, kFinished.message);
  EXPECT_ERROR(Code::Aborted, "finished", pair_.a->send({"x"}));
  pair_ = {};
}

TEST_P(ConnectionConformance, DestroyingAnEndTellsTheOther) {
  MessageLog log;
  pair_.a->start(log.events());
  pair_.b->send({"last"});
  pair_.b.reset();
  EXPECT_EQ(log.await_end().code, Code::Unavailable);
  EXPECT_EQ(log.count(), 1u);
  pair_ = {};
}

// A sender that waits because the other end does not read.
class WaitingSender {
 public:
  WaitingSender(Connection& connection, size_t limit_bytes)
      : outcome_(std::async(std::launch::async, [this, &connection, limit_bytes] {
          const Buffer payload = patterned_payload(limit_bytes / 8, 0);
          return capture_status([&] {
            for (;; ++sent_) connection.send({"x", {payload}});
          });
        })) {}
  // It has sent so much that it waits, or is about to.
  void await_busy() const {
    while (sent_ < 4) std::this_thread::yield();
  }
  Status outcome() {
    if (outcome_.wait_until(MessageLog::soon()) != std::future_status::ready) {
      ADD_FAILURE() << "the sender waits for ever";
      std::abort();
    }
    return outcome_.get();
  }

 private:
  std::atomic<size_t> sent_ = 0;
  std::future<Status> outcome_;
};

TEST_P(ConnectionConformance, ClosingFreesASenderThatWaits) {
  WaitingSender sender(*pair_.a, GetParam().limit_bytes);
  sender.await_busy();
  pair_.a->close(kFinished);
  EXPECT_EQ(sender.outcome().code, Code::Cancelled);
}

TEST_P(ConnectionConformance, APeerThatGoesFreesASenderThatWaits) {
  WaitingSender sender(*pair_.a, GetParam().limit_bytes);
  sender.await_busy();
  pair_.b.reset();
  EXPECT_EQ(sender.outcome().code, Code::Unavailable);
}

}  // namespace
}  // namespace cohort::internal
