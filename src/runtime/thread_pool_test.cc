#include "runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>

#include "support/eventually.h"

namespace cohort::internal {
namespace {

int threads_named(const std::string& name) {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");  // of a thread that ends meanwhile it is empty
    std::string found;
    count += std::getline(file, found) && found == name ? 1 : 0;
  }
  return count;
}

// Runs that many tasks, each of which waits for all others. The tasks share the latch, because a
// task may still be returning from its wait when this function ends.
void run_together(ThreadPool& pool, int tasks) {
  const auto all = std::make_shared<std::latch>(tasks + 1);
  for (int i = 0; i < tasks; ++i) pool.submit([all] { all->arrive_and_wait(); });
  all->arrive_and_wait();
}

TEST(ThreadPool, EndsThreadsThatStayIdle) {
  ThreadPool pool("burst");
  run_together(pool, 20);
  EXPECT_TRUE(test::eventually([] { return threads_named("burst") == 0; }));
  run_together(pool, 3);  // and makes new ones
}

TEST(ThreadPool, UsesAnIdleThreadAgain) {
  ThreadPool pool("reused");
  for (int i = 0; i < 50; ++i) run_together(pool, 1);
  EXPECT_LT(threads_named("reused"), 25);
}

}  // namespace
}  // namespace cohort::internal
