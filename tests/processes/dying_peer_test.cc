// A shared-memory connection to another process, which is killed.

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <future>
#include <thread>

#include "support/expect_error.h"
#include "support/message_log.h"
#include "transport/shared_memory.h"

extern char** environ;

namespace cohort::internal {
namespace {

class DyingPeer : public testing::Test {
 protected:
  void start_child(const char* mode) {
    SharedMemoryListener listener({size_t{16} << 20});
    std::promise<std::shared_ptr<Connection>> arrived;
    std::string nonce =
        listener.expect({.name = "parent"}, {.name = "child"}, MessageLog::soon(),
                        [&](auto connection) { arrived.set_value(std::move(connection)); });
    std::string name = listener.name();
    std::string program = CONNECTION_PEER;
    std::string how = mode;
    char* const arguments[] = {program.data(), name.data(), nonce.data(), how.data(), nullptr};
    ASSERT_EQ(posix_spawn(&child_, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    auto connected = arrived.get_future();
    ASSERT_EQ(connected.wait_until(MessageLog::soon()), std::future_status::ready);
    connection_ = connected.get();
  }
  void await_ready() {
    connection_->start(log_.events());
    ASSERT_TRUE(log_.await(1));
  }
  void kill_child() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  void expect_noticed() {
    const Status why = log_.await_end();
    EXPECT_EQ(why.code, Code::Unavailable) << why;
    EXPECT_NE(why.message.find("the process of child is gone"), std::string::npos) << why;
    EXPECT_ERROR(Code::Unavailable, "is gone", connection_->send({"x"}));
  }
  ~DyingPeer() override {
    connection_.reset();
    kill_child();
  }

  pid_t child_ = 0;
  MessageLog log_;
  std::shared_ptr<Connection> connection_;
};

TEST_F(DyingPeer, AnswersWhileItLives) {
  start_child("echo");
  await_ready();
  for (const size_t size : {size_t{10}, size_t{100000}, size_t{40} << 20}) {
    log_.take();
    connection_->send(test_message("question", {size}));
    ASSERT_TRUE(log_.await(1));
    expect_message(log_.take()[0], "question", {size});
  }
  connection_->close({Code::Aborted, "[Test] finished"});
  int outcome = -1;
  ::waitpid(child_, &outcome, 0);
  child_ = 0;
  EXPECT_EQ(outcome, 0);
}

TEST_F(DyingPeer, IsNoticedWhileNobodyDoesAnything) {
  start_child("echo");
  await_ready();
  kill_child();
  expect_noticed();
}

TEST_F(DyingPeer, FreesASenderThatWaits) {
  start_child("deaf");
  std::atomic<int> sent = 0;
  auto sending = std::async(std::launch::async, [&] {
    return error_of([&] {
      for (;; ++sent) connection_->send(test_message("x", {size_t{4} << 20}));
    });
  });
  while (sent < 3) std::this_thread::yield();
  kill_child();
  ASSERT_EQ(sending.wait_until(MessageLog::soon()), std::future_status::ready);
  EXPECT_EQ(sending.get().code, Code::Unavailable);
  connection_->start(log_.events());
  expect_noticed();
}

TEST_F(DyingPeer, FreesWhoWaitsForAnAnswer) {
  start_child("deaf");
  await_ready();
  auto waiting = std::async(std::launch::async, [&] {
    return error_of([&] { connection_->deliver_until([] { return false; }, MessageLog::soon()); });
  });
  kill_child();
  EXPECT_EQ(waiting.get().code, Code::Unavailable);
  expect_noticed();
}

// At any moment, also in the middle of a message.
TEST_F(DyingPeer, WhatArrivedBeforeStaysWhole) {
  for (int round = 0; round < 5; ++round) {
    MessageLog log;
    start_child("flood");
    connection_->start(log.events());
    ASSERT_TRUE(log.await(10 + static_cast<size_t>(round) * 7));
    kill_child();
    EXPECT_EQ(log.await_end().code, Code::Unavailable);
    connection_.reset();
    for (const Message& message : log.take()) {
      if (message.header == "ready") continue;
      ASSERT_EQ(message.payloads.size(), 1u);
      ASSERT_EQ(message.payloads[0].bytes.size(), size_t{1} << 20);
      EXPECT_EQ(message.payloads[0].bytes.back(), std::byte{7});
    }
  }
}

}  // namespace
}  // namespace cohort::internal
