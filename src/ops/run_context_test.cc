#include "ops/run_context.h"

#include <gtest/gtest.h>

#include <optional>

namespace cohort::internal {
namespace {

TEST(Cancellation, CallsBackWithoutALock) {
  Cancellation cancellation;
  int calls = 0;
  const auto wake = [&] {
    check_no_mutex_held("calls back");
    const Cancellation::Listener inside(cancellation, [&] { ++calls; });
  };
  {
    const Cancellation::Listener before(cancellation, wake);
    cancellation.cancel({.code = Code::Cancelled, .message = "enough"});
    EXPECT_EQ(calls, 1);
  }
  const Cancellation::Listener after(cancellation, wake);
  EXPECT_EQ(calls, 2);
}

// A call may end another listener.
TEST(Cancellation, DoesNotCallAListenerThatHasEnded) {
  Cancellation cancellation;
  int calls = 0;
  std::optional<Cancellation::Listener> other;
  const Cancellation::Listener first(cancellation, [&] { other.reset(); });
  other.emplace(cancellation, [&] { ++calls; });
  cancellation.cancel({.code = Code::Cancelled, .message = "enough"});
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace cohort::internal
