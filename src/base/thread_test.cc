#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "base/raise.h"

namespace cohort::internal {
namespace {

std::string name_seen_by_system() {
  std::array<char, 32> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(Thread, HasItsNameForTheLogAndForTheSystem) {
  std::string ours, systems;
  Thread("replica 1", [&](const std::stop_token&) {
    ours = thread_name();
    systems = name_seen_by_system();
  }).join();
  EXPECT_EQ(ours, "replica 1");
  EXPECT_EQ(systems, "replica 1");
}

TEST(Thread, KeepsFifteenCharactersOfALongName) {
  std::string ours, systems;
  Thread("a name that is too long", [&](const std::stop_token&) {
    ours = thread_name();
    systems = name_seen_by_system();
  }).join();
  EXPECT_EQ(ours, "a name that is ");
  EXPECT_EQ(systems, ours);
}

TEST(Thread, NamesTheFirstThreadMainAndOthersByNumber) {
  EXPECT_EQ(thread_name(), "main");
  std::string name;
  std::thread([&] { name = thread_name(); }).join();
  EXPECT_FALSE(name.empty());
  EXPECT_EQ(name.find_first_not_of("0123456789"), std::string::npos) << name;
}

// Waits until the thread is asked to stop.
void await_stop(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [] { return false; });
}

TEST(Thread, DestructionStopsAndJoins) {
  std::atomic<bool> ended = false;
  {
    const Thread thread("waiter", [&](const std::stop_token& stop) {
      await_stop(stop);
      ended = true;
    });
  }
  EXPECT_TRUE(ended);
}

TEST(Thread, OverwritingStopsAndJoins) {
  std::atomic<bool> ended = false;
  Thread thread("waiter", [&](const std::stop_token& stop) {
    await_stop(stop);
    ended = true;
  });
  thread = Thread();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(thread.joinable());
}

TEST(Thread, JoinWaitsForTheBodyAndMayComeTwice) {
  bool ended = false;
  Thread thread("worker", [&](const std::stop_token&) { ended = true; });
  thread.join();
  EXPECT_TRUE(ended);
  thread.join();
  Thread().join();
}

TEST(Thread, ExceptionIsLoggedAndEndsTheThreadOnly) {
  testing::internal::CaptureStderr();
  Thread("failing", [](const std::stop_token&) { raise(Code::NotFound, "no such thing"); }).join();
  Thread("failing too", [](const std::stop_token&) { throw std::logic_error("bad"); }).join();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("E [failing] [Thread] the thread ends because of NOT_FOUND: no such thing"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[failing too] [Thread] the thread ends because of UNKNOWN: bad"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace cohort::internal
