// What connections carry, in which order, and how much at once.

#include "support/connection_conformance.h"

#include <atomic>
#include <functional>
#include <future>
#include <random>
#include <thread>

#include "base/mutex.h"
#include "support/ends_with_mutex.h"
#include "support/message_log.h"

namespace cohort::internal {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

TEST_P(ConnectionConformance, KnowsItsKindAndItsPeer) {
  EXPECT_EQ(pair_.a->kind(), GetParam().kind);
  EXPECT_EQ(pair_.b->kind(), GetParam().kind);
  EXPECT_EQ(pair_.a->peer().name, "b");
  EXPECT_EQ(pair_.b->peer().name, "a");
}

TEST_P(ConnectionConformance, DeliversInTheOrderOfSending) {
  MessageLog log;
  pair_.b->start(log.events());
  constexpr int kCount = 3000;
  for (int i = 0; i < kCount; ++i) pair_.a->send({std::to_string(i)});
  ASSERT_TRUE(log.await(kCount));
  const auto messages = log.take();
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(messages[i].header, std::to_string(i));
  pair_.b.reset();
}

TEST_P(ConnectionConformance, CarriesPayloadsOfEverySize) {
  MessageLog log;
  pair_.b->start(log.events());
  const std::vector<size_t> sizes{
      0, 1, 63, 64, 65, 1000, 4096, kMegabyte, kMegabyte + 1, 64 * kMegabyte};
  for (const size_t size : sizes) {
    pair_.a->send(test_message("one of " + std::to_string(size), {size}));
    ASSERT_TRUE(log.await(1));
    expect_message(log.take().front(), "one of " + std::to_string(size), {size});
  }
  pair_.b.reset();
}

TEST_P(ConnectionConformance, CarriesMoreThanMayBeOnItsWayAtOnce) {
  MessageLog log;
  pair_.b->start(log.events());
  const size_t large = GetParam().limit_bytes + kMegabyte + 1;
  pair_.a->send(test_message("large", {5, large, 0, 7}));
  pair_.a->send(test_message("small", {3}));
  ASSERT_TRUE(log.await(2));
  const auto messages = log.take();
  expect_message(messages[0], "large", {5, large, 0, 7});
  expect_message(messages[1], "small", {3});
  pair_.b.reset();
}

TEST_P(ConnectionConformance, CarriesHeadersOfEverySize) {
  MessageLog log;
  pair_.b->start(log.events());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, 3 * kMegabyte}) {
    const std::string header(size, static_cast<char>('a' + size % 7));
    pair_.a->send(test_message(header, {10000}));
    ASSERT_TRUE(log.await(1));
    expect_message(log.take().front(), header, {10000});
  }
  pair_.b.reset();
}

TEST_P(ConnectionConformance, CarriesManyPayloads) {
  MessageLog log;
  pair_.b->start(log.events());
  std::vector<size_t> few(100, 4096);
  std::vector<size_t> many;
  for (size_t i = 0; i < 5000; ++i) many.push_back(i % 97);
  pair_.a->send(test_message("few", few));
  pair_.a->send(test_message("many", many));
  ASSERT_TRUE(log.await(2));
  const auto messages = log.take();
  expect_message(messages[0], "few", few);
  expect_message(messages[1], "many", many);
  pair_.b.reset();
}

TEST_P(ConnectionConformance, PostingDoesNotWaitForRoom) {
  constexpr size_t kCount = 4;
  const size_t size = GetParam().limit_bytes / 2 + kMegabyte;
  for (size_t i = 0; i < kCount; ++i) pair_.a->post(test_message(std::to_string(i), {size}));
  MessageLog log;
  pair_.a->start({[](const Message&) {}, [](const Status&) {}});
  pair_.b->start(log.events());
  ASSERT_TRUE(log.await(kCount));
  const auto messages = log.take();
  for (size_t i = 0; i < kCount; ++i) expect_message(messages[i], std::to_string(i), {size});
  pair_.b.reset();
}

TEST_P(ConnectionConformance, EndsAProgramThatSendsWithAMutex) {
  expect_end_with_mutex("sends", [&] { pair_.a->send({"with a mutex"}); });
}

TEST_P(ConnectionConformance, EndsAProgramThatPostsWithAMutex) {
  expect_end_with_mutex("sends", [&] { pair_.a->post({"with a mutex"}); });
}

TEST_P(ConnectionConformance, EndsAProgramThatReadsWithAMutex) {
  pair_.a->start({[](const Message&) {}, [](const Status&) {}});
  expect_end_with_mutex("reads",
                        [&] { pair_.a->deliver_until([] { return true; }, MessageLog::soon()); });
}

TEST_P(ConnectionConformance, SendsForAThreadThatHasATurn) {
  MessageLog log;
  pair_.b->start(log.events());
  Turn turn;
  const std::lock_guard mine(turn);
  pair_.a->send({"in turn"});
  EXPECT_TRUE(log.await(1));
  pair_.b.reset();
}

TEST_P(ConnectionConformance, WhoWaitsAsksAgainWhenWoken) {
  pair_.a->start({[](const Message&) {}, [](const Status&) {}});
  std::atomic<bool> asked = false;
  std::atomic<bool> true_now = false;
  const auto waker = std::async(std::launch::async, [&] {
    while (!asked) std::this_thread::yield();
    true_now = true;
    pair_.a->wake();
  });
  EXPECT_TRUE(pair_.a->deliver_until(
      [&] {
        asked = true;
        return true_now.load();
      },
      MessageLog::never()));
}

TEST_P(ConnectionConformance, ManyThreadsSendEachInItsOrder) {
  MessageLog log;
  pair_.b->start(log.events());
  constexpr int kThreads = 4;
  constexpr int kEach = 400;
  {
    std::vector<std::jthread> senders;
    for (int t = 0; t < kThreads; ++t) {
      senders.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          pair_.a->send(test_message(std::string(1, static_cast<char>(t)) + std::to_string(i),
                                     {static_cast<size_t>(i * 31)}));
        }
      });
    }
  }
  ASSERT_TRUE(log.await(kThreads * kEach));
  std::vector<int> next(kThreads);
  for (const Message& message : log.take()) {
    int& i = next[message.header[0]];
    expect_message(message, message.header[0] + std::to_string(i), {static_cast<size_t>(i * 31)});
    ++i;
  }
  pair_.b.reset();
}

TEST_P(ConnectionConformance, BothSidesSendAtOnce) {
  MessageLog at_a;
  MessageLog at_b;
  pair_.a->start(at_a.events());
  pair_.b->start(at_b.events());
  constexpr int kCount = 12;
  const auto send_all = [](Connection& from) {
    for (int i = 0; i < kCount; ++i) from.send(test_message(std::to_string(i), {8 * kMegabyte}));
  };
  {
    const std::jthread one([&] { send_all(*pair_.a); });
    const std::jthread other([&] { send_all(*pair_.b); });
  }
  for (MessageLog* log : {&at_a, &at_b}) {
    ASSERT_TRUE(log->await(kCount));
    const auto messages = log->take();
    for (int i = 0; i < kCount; ++i) {
      expect_message(messages[i], std::to_string(i), {8 * kMegabyte});
    }
  }
  pair_ = {};
}

// The reader rests over the first message; the sender must not be further ahead than the limit.
TEST_P(ConnectionConformance, ASlowReaderHoldsTheSenderBack) {
  const size_t size = GetParam().limit_bytes / 8;
  constexpr size_t kCount = 3 * 8;
  std::atomic<size_t> sent = 0;
  std::atomic<size_t> taken = 0;
  MessageLog log;
  auto events = log.events();
  events.received = [&](const Message& message) {
    while (sent < 2) std::this_thread::yield();  // so many go without anybody reading, on all ways
    if (taken == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // slow
    EXPECT_EQ(message.payloads[0].bytes.size(), size);
    ++taken;
  };
  pair_.b->start(std::move(events));
  const Buffer payload = patterned_payload(size, 0);
  size_t ahead = 0;
  while (sent < kCount) {
    pair_.a->send({"x", {payload}});
    ++sent;
    ahead = std::max(ahead, sent - std::min(sent.load(), taken.load()));
  }
  // One more is in the reader's hands, and one is just being counted.
  EXPECT_LE(ahead * size, GetParam().limit_bytes + 3 * size);
  EXPECT_GE(ahead, 2u);
  pair_.a->close(kFinished);
  EXPECT_EQ(log.await_end().message, kFinished.message);
  EXPECT_EQ(taken, kCount);
  pair_ = {};
}

TEST_P(ConnectionConformance, AReaderThatKeepsEverythingStopsNobody) {
  MessageLog log;
  pair_.b->start(log.events());
  constexpr size_t kSize = 4 * kMegabyte;
  const size_t count = std::min<size_t>(2 * GetParam().limit_bytes / kSize, 256) + 2;
  for (size_t i = 0; i < count; ++i) pair_.a->send(test_message("kept", {kSize}));
  ASSERT_TRUE(log.await(count));
  pair_ = {};
  for (const Message& message : log.take()) expect_message(message, "kept", {kSize});
}

TEST_P(ConnectionConformance, PayloadsOutliveTheConnection) {
  MessageLog log;
  pair_.b->start(log.events());
  pair_.a->send(test_message("x", {1, 70000, kMegabyte}));
  ASSERT_TRUE(log.await(1));
  pair_ = {};
  expect_message(log.take().front(), "x", {1, 70000, kMegabyte});
}

TEST_P(ConnectionConformance, LetsGoOfWhatWasSent) {
  MessageLog log;
  pair_.b->start(log.events());
  Message message = test_message("x", {100, kMegabyte});
  const std::weak_ptr<const void> memory = message.payloads[1].owner;
  pair_.a->send(std::move(message));
  ASSERT_TRUE(log.await(1));
  log.take();
  pair_ = {};
  EXPECT_TRUE(memory.expired());
}

TEST_P(ConnectionConformance, CountsWhatGoesOverIt) {
  MessageLog log;
  pair_.b->start(log.events());
  pair_.a->send(test_message("12345", {100, 100000}));
  pair_.a->send({"1"});
  ASSERT_TRUE(log.await(2));
  const Traffic sent = pair_.a->traffic();
  const Traffic received = pair_.b->traffic();
  EXPECT_EQ(sent.messages_sent, 2u);
  EXPECT_EQ(sent.bytes_sent, 100106u);
  EXPECT_EQ(received.messages_received, 2u);
  EXPECT_EQ(received.bytes_received, 100106u);
  EXPECT_EQ(sent.messages_received + received.messages_sent, 0u);
  pair_.b.reset();
}

// Any mixture of messages comes back from an echo as it was.
TEST_P(ConnectionConformance, AnyMixtureArrivesAsItWasSent) {
  MessageLog log;
  pair_.a->start(log.events());
  pair_.b->start(echo(*pair_.b));
  std::mt19937_64 random(20240901);
  const auto up_to = [&](size_t limit) { return static_cast<size_t>(random() % (limit + 1)); };
  std::vector<std::pair<std::string, std::vector<size_t>>> sent;
  for (int i = 0; i < 300; ++i) {
    std::vector<size_t> sizes(up_to(6));
    for (size_t& size : sizes) size = up_to(size_t{1} << up_to(19));
    sent.emplace_back(std::string(up_to(size_t{1} << up_to(13)), static_cast<char>(i)), sizes);
    pair_.a->send(test_message(sent.back().first, sizes));
  }
  ASSERT_TRUE(log.await(sent.size()));
  const auto messages = log.take();
  for (size_t i = 0; i < sent.size(); ++i)
    expect_message(messages[i], sent[i].first, sent[i].second);
  pair_ = {};
}

}  // namespace
}  // namespace cohort::internal
