#include "base/thread_context.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/thread.h"

namespace cohort::internal {
namespace {

struct Recorded {
  int followed = 0;
  int own = 0;
  Recorded captured() const { return {.followed = followed}; }
};

constinit ContextSlot<int> number;
constinit ContextSlot<std::vector<std::string>> names;
constinit ContextSlot<Recorded> recorded;
constinit ContextSlot<std::shared_ptr<int>> shared;

void in_another_thread(const std::function<void()>& body) {
  Thread thread("other", [&](const std::stop_token&) { body(); });
  thread.join();
}

TEST(ThreadContext, IsEmptyInANewThread) {
  const ContextValue one(number, 1);
  const ContextValue some(names, {"a"});
  in_another_thread([] {
    EXPECT_EQ(number.get(), 0);
    EXPECT_TRUE(names.get().empty());
  });
}

TEST(ThreadContext, FollowsWorkAsAWhole) {
  const ContextValue one(number, 7);
  const ContextValue some(names, {"outer", "inner"});
  ThreadContext context;
  context.capture();
  in_another_thread([&] {
    const ContextValue other(number, 3);
    {
      const ThreadContext::Scope inside(context);
      EXPECT_EQ(number.get(), 7);
      EXPECT_EQ(names.get(), (std::vector<std::string>{"outer", "inner"}));
    }
    EXPECT_EQ(number.get(), 3);
    EXPECT_TRUE(names.get().empty());
  });
}

TEST(ThreadContext, IsACopyThatLaterScopesDoNotChange) {
  ThreadContext context;
  context.capture();
  const ContextValue later(names, {"later"});
  const ThreadContext::Scope inside(context);
  EXPECT_TRUE(names.get().empty());
  names.get().emplace_back("only inside");
}

TEST(ThreadContext, LeavesOutWhatATypeKeepsForItsThread) {
  const ContextValue both(recorded, {.followed = 1, .own = 2});
  ThreadContext context;
  context.capture();
  const ThreadContext::Scope inside(context);
  EXPECT_EQ(recorded.get().followed, 1);
  EXPECT_EQ(recorded.get().own, 0);
}

TEST(ThreadContext, IsCapturedAgainWithoutWhatHasEnded) {
  ThreadContext context;
  {
    const ContextValue one(number, 1);
    const ContextValue some(names, {"a"});
    context.capture();
  }
  context.capture();
  const ThreadContext::Scope inside(context);
  EXPECT_EQ(number.get(), 0);
  EXPECT_TRUE(names.get().empty());
}

TEST(ThreadContext, ReleasesItsValuesWhenItIsCleared) {
  const auto held = std::make_shared<int>(1);
  ThreadContext context;
  {
    const ContextValue value(shared, held);
    context.capture();
  }
  EXPECT_EQ(held.use_count(), 2);
  context.clear();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ThreadContext, ReleasesItsValuesWhenTheThreadEnds) {
  const auto held = std::make_shared<int>(1);
  in_another_thread([&] { shared.get() = held; });
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace cohort::internal
