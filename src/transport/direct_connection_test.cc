// Connections whose messages are delivered by the thread that sends them.

#include "transport/direct_connection.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "support/ends_with_mutex.h"
#include "support/expect_error.h"
#include "support/message_log.h"
#include "transport/in_process.h"

namespace cohort::internal {
namespace {

const Status kFinished{Code::Aborted, "[Test] finished"};

struct DirectTest : testing::Test {
  MessageLog log_;  // outlives the connection
  std::pair<std::shared_ptr<DirectConnection>, std::shared_ptr<DirectConnection>> ends_ =
      connect_directly({.name = "a"}, {.name = "b"});
  DirectConnection& a_ = *ends_.first;
  DirectConnection& b_ = *ends_.second;
};

TEST_F(DirectTest, TheThreadThatSendsDelivers) {
  std::thread::id delivered_by;
  b_.start(
      {[&](const Message&) { delivered_by = std::this_thread::get_id(); }, [](const Status&) {}});
  a_.send({"hello"});
  EXPECT_EQ(delivered_by, std::this_thread::get_id());
  EXPECT_EQ(a_.peer().name, "b");
  EXPECT_EQ(b_.traffic().messages_received, 1u);
}

TEST_F(DirectTest, WhatComesBeforeTheStartWaits) {
  a_.send({"first"});
  a_.send({"second"});
  a_.close(kFinished);
  b_.start(log_.events());
  EXPECT_EQ(log_.await_end().code, Code::Aborted);
  const std::vector<Message> messages = log_.take();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].header, "second");
}

TEST_F(DirectTest, OnceEndedItStaysSo) {
  a_.start(log_.events());
  MessageLog other;
  b_.start(other.events());
  b_.close(kFinished);
  EXPECT_EQ(log_.await_end().code, Code::Aborted);
  EXPECT_EQ(other.await_end().code, Code::Cancelled);
  EXPECT_ERROR(Code::Aborted, "finished", a_.send({"late"}));
  EXPECT_ERROR(Code::Aborted, "finished",
               a_.deliver_until([] { return false; }, MessageLog::soon()));
}

TEST_F(DirectTest, TheEndComesAfterTheEventThatIsRunning) {
  bool inside = false;
  b_.start({[&](const Message&) {
              inside = true;
              b_.close(kFinished);
              inside = false;
            },
            [&](const Status&) { EXPECT_FALSE(inside); }});
  a_.start(log_.events());
  a_.send({"close"});
  EXPECT_EQ(log_.await_end().code, Code::Aborted);
}

TEST_F(DirectTest, WhoeverWaitsIsWokenByAMessageFromAnotherThread) {
  a_.start(log_.events());
  b_.start({[](const Message&) {}, [](const Status&) {}});
  const auto sender = std::async(std::launch::async, [&] { b_.send({"answer"}); });
  EXPECT_TRUE(a_.deliver_until([&] { return log_.count() == 1; }, MessageLog::soon()));
}

// The other side's events run on the thread that sends, and may need the mutex.
TEST_F(DirectTest, EndsAProgramThatSendsWithAMutex) {
  expect_end_with_mutex("sends", [&] { a_.send({"with a mutex"}); });
}

TEST_F(DirectTest, EndsAProgramThatPostsWithAMutex) {
  expect_end_with_mutex("sends", [&] { a_.post({"with a mutex"}); });
}

TEST_F(DirectTest, EndsAProgramThatReadsWithAMutex) {
  expect_end_with_mutex("reads",
                        [&] { a_.deliver_until([] { return true; }, MessageLog::soon()); });
}

// A connection that b reads before it can answer a.
struct PendingWaitTest : DirectTest {
  std::pair<std::shared_ptr<Connection>, std::shared_ptr<Connection>> third_ =
      connect_in_process({.name = "b"}, {.name = "c"});
  std::atomic<bool> open_ = true;

  PendingWaitTest() {
    a_.start(log_.events());
    b_.start({[](const Message&) {}, [](const Status&) {}});
    third_.first->start({[this](Message message) {
                           open_ = false;
                           b_.send(std::move(message));
                         },
                         [](const Status&) {}});
    third_.second->start({[](const Message&) {}, [](const Status&) {}});
    b_.set_pending_waits([this]() -> std::optional<PendingWait> {
      if (!open_) return std::nullopt;
      return PendingWait{.on = third_.first, .is_open = [this] { return open_.load(); }};
    });
  }
  bool await_answer() {
    return a_.deliver_until([&] { return log_.count() == 1; }, MessageLog::soon());
  }
};

TEST_F(PendingWaitTest, WhoWaitsForAnAnswerReadsWhatItDependsOn) {
  // The connection's own thread leaves it to who waits in the foreground.
  std::atomic<bool> waiting = false;
  const auto sender = std::async(std::launch::async, [&] {
    while (!waiting) std::this_thread::yield();
    third_.second->send({"answer"});
  });
  EXPECT_TRUE(a_.deliver_until(
      [&] {
        waiting = true;
        return log_.count() == 1;
      },
      MessageLog::soon()));
  EXPECT_EQ(log_.take()[0].header, "answer");
}

TEST_F(PendingWaitTest, AnAnswerThatComesByAnotherWayEndsIt) {
  const auto sender = std::async(std::launch::async, [&] { b_.send({"sooner"}); });
  EXPECT_TRUE(await_answer());
  EXPECT_TRUE(open_);
}

TEST_F(PendingWaitTest, ALostConnectionLeavesItToTheOtherSide) {
  third_.second->close(kFinished);
  const auto sender = std::async(std::launch::async, [&] {
    open_ = false;
    b_.send({"it is lost"});
  });
  EXPECT_TRUE(await_answer());
}

TEST_F(PendingWaitTest, AWaitEndsAtItsDeadline) {
  EXPECT_FALSE(a_.deliver_until([] { return false; },
                                std::chrono::steady_clock::now() + std::chrono::milliseconds(10)));
}

}  // namespace
}  // namespace cohort::internal
