#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>

#include "base/mutex.h"

namespace cohort::internal {

// Checks that the program ends, with a text that names the action, where a thread with a Mutex does
// `call`. A Release build does not check.
inline void expect_end_with_mutex(const std::string& action, const std::function<void()>& call) {
  if (!kChecksLocks) GTEST_SKIP() << "a Release build does not check";
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // connections have threads
  Mutex mutex;
  EXPECT_DEATH(
      {
        const std::lock_guard lock(mutex);
        call();
      },
      "this thread " + action + " while it holds a mutex of the library");
}

}  // namespace cohort::internal
