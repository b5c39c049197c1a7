#include "base/mutex.h"

#include <gtest/gtest.h>

#include <condition_variable>

namespace cohort::internal {
namespace {

TEST(Mutex, EndsAProgramThatSendsWithOne) {
  if (!kChecksLocks) GTEST_SKIP() << "a Release build does not check";
  Mutex mutex;
  EXPECT_DEATH(
      {
        const std::lock_guard lock(mutex);
        check_no_mutex_held("sends");
      },
      "this thread sends while it holds a mutex of the library");
}

TEST(Mutex, LetsAThreadSendThatHasLetGo) {
  Mutex mutex;
  { const std::lock_guard lock(mutex); }
  check_no_mutex_held("sends");
}

TEST(Mutex, IsNotHeldByAThreadThatWaits) {
  if (!kChecksLocks) GTEST_SKIP() << "a Release build does not count";
  Mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, [&, looks = 0]() mutable { return ++looks == 1; });
  EXPECT_EQ(num_mutexes_held, 1);
  changed.wait_for(lock, std::chrono::milliseconds(1));
  EXPECT_EQ(num_mutexes_held, 1);
  lock.unlock();
  EXPECT_EQ(num_mutexes_held, 0);
}

TEST(Turn, LetsItsThreadSend) {
  Turn turn;
  const std::lock_guard mine(turn);
  check_no_mutex_held("sends");
}

}  // namespace
}  // namespace cohort::internal
