// Which threads deliver, who waits for what, and what events may do.

#include <atomic>
#include <future>
#include <thread>

#include "support/connection_conformance.h"
#include "support/expect_error.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

using std::chrono::steady_clock;

Deadline after_ms(int64_t ms) { return steady_clock::now() + std::chrono::milliseconds(ms); }

TEST_P(ConnectionConformance, WhatArrivesEarlyWaitsForTheStart) {
  for (int i = 0; i < 10; ++i) pair_.a->send({std::to_string(i)});
  EXPECT_FALSE(pair_.b->deliver_until([] { return false; }, after_ms(5)));
  MessageLog log;
  pair_.b->start(log.events());
  ASSERT_TRUE(log.await(10));
  EXPECT_EQ(log.take()[9].header, "9");
  EXPECT_ERROR(Code::FailedPrecondition, "twice", pair_.b->start({}));
  pair_.b.reset();
}

TEST_P(ConnectionConformance, DeliversOnTheThreadThatWaits) {
  std::atomic<bool> answered = false;
  std::thread::id on;
  pair_.a->start({[&](const Message&) {
                    on = std::this_thread::get_id();
                    answered = true;
                  },
                  [](const Status&) {}});
  for (int i = 0; i < 50; ++i) {
    answered = false;
    std::atomic<int> asked = 0;
    const std::jthread other([&] {
      while (asked < 2) std::this_thread::yield();  // once before it begins to wait
      pair_.b->send({"answer"});
    });
    const auto done = [&] {
      ++asked;
      return answered.load();
    };
    ASSERT_TRUE(pair_.a->deliver_until(done, MessageLog::soon()));
    EXPECT_EQ(on, std::this_thread::get_id());
  }
  pair_ = {};
}

TEST_P(ConnectionConformance, WaitingEndsInTime) {
  MessageLog log;
  pair_.a->start(log.events());
  const Deadline deadline = after_ms(30);
  EXPECT_FALSE(pair_.a->deliver_until([] { return false; }, deadline));
  EXPECT_GE(steady_clock::now(), deadline);
  EXPECT_FALSE(pair_.a->deliver_until([] { return false; }, after_ms(-1)));
  EXPECT_TRUE(pair_.a->deliver_until([] { return true; }, after_ms(-1)));
  pair_.a.reset();
}

TEST_P(ConnectionConformance, ClosingFreesWhoWaitsForMessages) {
  MessageLog log;
  pair_.a->start(log.events());
  auto waiting = std::async(std::launch::async, [&] {
    return error_of([&] { pair_.a->deliver_until([] { return false; }, MessageLog::soon()); });
  });
  pair_.a->close(kFinished);
  EXPECT_EQ(waiting.get().code, Code::Cancelled);
  pair_ = {};
}

// Every thread asks and waits for its own answers. The thread that reads delivers the answers of
// all threads.
TEST_P(ConnectionConformance, ManyThreadsWaitAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::vector<std::atomic<int>> answers(kThreads);
  pair_.a->start(
      {[&](const Message& message) { ++answers[message.header[0]]; }, [](const Status&) {}});
  pair_.b->start(echo(*pair_.b));
  {
    std::vector<std::jthread> clients;
    for (int t = 0; t < kThreads; ++t) {
      clients.emplace_back([&, t] {
        for (int i = 1; i <= kEach; ++i) {
          pair_.a->send({std::string(1, static_cast<char>(t))});
          ASSERT_TRUE(pair_.a->deliver_until([&] { return answers[t] >= i; }, MessageLog::never()));
        }
      });
    }
  }
  for (const auto& count : answers) EXPECT_EQ(count, kEach);
  pair_ = {};
}

TEST_P(ConnectionConformance, WaitingInsideOfAnEventIsRefused) {
  std::promise<Status> outcome;
  pair_.b->start({[&](Message) {
                    outcome.set_value(error_of(
                        [&] { pair_.b->deliver_until([] { return false; }, MessageLog::soon()); }));
                  },
                  [](const Status&) {}});
  pair_.a->send({"x"});
  EXPECT_EQ(outcome.get_future().get().code, Code::FailedPrecondition);
  pair_.b.reset();
}

// Both answer everything from inside their events, with more than may be on its way: if sending
// waited there, both would wait for each other.
TEST_P(ConnectionConformance, EventsThatSendDoNotWaitForEachOther) {
  const size_t size = GetParam().limit_bytes / 4 + 1;
  constexpr int kCount = 7;
  constexpr int kRounds = 3;
  std::atomic<int> finished = 0;
  std::promise<void> all;
  const auto bounce = [&](Connection& back) {
    return [&](Message message) {
      if (++message.header[0] < kRounds * 2) return back.send(std::move(message));
      if (++finished == 2 * kCount) all.set_value();
    };
  };
  pair_.a->start({bounce(*pair_.a), [](const Status&) {}});
  pair_.b->start({bounce(*pair_.b), [](const Status&) {}});
  const Buffer payload = patterned_payload(size, 0);
  {
    const auto send_all = [&](Connection& from) {
      for (int i = 0; i < kCount; ++i) from.send({std::string(1, '\0'), {payload}});
    };
    const std::jthread one([&] { send_all(*pair_.a); });
    const std::jthread other([&] { send_all(*pair_.b); });
  }
  EXPECT_EQ(all.get_future().wait_until(MessageLog::soon()), std::future_status::ready);
  pair_ = {};
}

TEST_P(ConnectionConformance, AnEventThatThrowsEndsNothing) {
  MessageLog log;
  auto events = log.events();
  events.received = [&log](Message message) {
    const bool bad = message.header == "bad";
    log.add(std::move(message));
    if (bad) throw Error(Code::Internal, "[Test] the log shows this error");
  };
  pair_.b->start(std::move(events));
  pair_.a->send({"bad"});
  pair_.a->send({"good"});
  EXPECT_TRUE(log.await(2));
  pair_.b.reset();
}

TEST_P(ConnectionConformance, AnEventMayDropItsConnection) {
  for (const bool at_end : {false, true}) {
    ConnectedPair pair = GetParam().connect();
    std::promise<void> dropped;
    const auto drop = [&] {
      pair.b.reset();
      dropped.set_value();
    };
    pair.b->start({[&, at_end](Message) {
                     if (!at_end) drop();
                   },
                   [&, at_end](const Status&) {
                     if (at_end) drop();
                   }});
    pair.a->send({"x"});
    if (at_end) pair.a->close(kFinished);
    EXPECT_EQ(dropped.get_future().wait_until(MessageLog::soon()), std::future_status::ready);
  }
}

TEST_P(ConnectionConformance, NothingHappensAfterDestruction) {
  for (int round = 0; round < 20; ++round) {
    ConnectedPair pair = GetParam().connect();
    auto alive = std::make_unique<std::atomic<bool>>(true);
    pair.b->start({[&](Message) { EXPECT_TRUE(alive->load()); },
                   [&](const Status&) { EXPECT_TRUE(alive->load()); }});
    std::jthread sender([&] {
      (void)capture_status([&] {
        for (;;) pair.a->send(test_message("x", {5000}));
      });
    });
    std::this_thread::yield();
    pair.b.reset();
    alive->store(false);
    alive.reset();
  }
}

}  // namespace
}  // namespace cohort::internal
