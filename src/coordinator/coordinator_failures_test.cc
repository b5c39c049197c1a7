// How a coordinator classifies failures.

#include "coordinator/coordinator_failures.h"

#include <gtest/gtest.h>

#include "support/scoped_environment.h"

namespace cohort {
namespace {

TEST(Failures, AreToldApart) {
  using internal::FailureKind;
  internal::FailureClassifier failures({.ps_failures = 3, .timeouts = 2});
  const auto start = std::chrono::steady_clock::now();
  const auto kind = [&](Code code, std::string text, int second = 0) {
    const auto now = start + std::chrono::seconds(second);
    return failures.classify({.code = code, .message = std::move(text)}, now, now);
  };
  EXPECT_EQ(kind(Code::Unavailable, "task /job:worker/replica:0/task:1 is lost"),
            FailureKind::Worker);
  EXPECT_EQ(kind(Code::Aborted, "From /job:worker/replica:0/task:1: task /job:ps/replica:0/task:0"),
            FailureKind::ParameterServer);
  EXPECT_EQ(kind(Code::InvalidArgument, "/job:ps/replica:0/task:0"), FailureKind::Function);
  EXPECT_EQ(kind(Code::OutOfRange, ""), FailureKind::Function);
  EXPECT_EQ(kind(Code::Cancelled, ""), FailureKind::Transient);
  EXPECT_EQ(kind(Code::DeadlineExceeded, "", 1), FailureKind::Transient);
  EXPECT_EQ(kind(Code::DeadlineExceeded, "", 2), FailureKind::Function);
}

class CountedFailures : public testing::Test {
 protected:
  // A function began to run at second `begun` and met the failure at second `now`.
  bool is_lost(const std::string& ps, int begun, int now) {
    return failures_.is_lost(ps, start_ + std::chrono::seconds(begun),
                             start_ + std::chrono::seconds(now));
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  internal::FailureClassifier failures_{{.ps_failures = 3, .timeouts = 0}};
};

TEST_F(CountedFailures, AreOneIncidentForAllFunctionsThatRanMeanwhile) {
  for (int function = 0; function < 20; ++function) EXPECT_FALSE(is_lost("ps 0", 0, 15));
  EXPECT_FALSE(is_lost("ps 0", 14, 16));
  EXPECT_FALSE(is_lost("ps 0", 17, 30));  // the second
  EXPECT_FALSE(is_lost("ps 1", 17, 30));
  EXPECT_FALSE(is_lost("ps 0", 29, 31));
  EXPECT_TRUE(is_lost("ps 0", 32, 40));
}

TEST_F(CountedFailures, AreForgottenAfterAHealthyMinute) {
  for (int minute = 0; minute < 20; minute += 2) {
    EXPECT_FALSE(is_lost("ps 0", 60 * minute, 60 * minute + 1));
    EXPECT_FALSE(is_lost("ps 0", 60 * minute + 2, 60 * minute + 3));
  }
}

// The time that a try took before it failed is not healthy time.
TEST_F(CountedFailures, OfTriesLongerThanAMinuteAreNotForgotten) {
  EXPECT_FALSE(is_lost("ps 0", 0, 90));
  EXPECT_FALSE(is_lost("ps 0", 91, 181));
  EXPECT_TRUE(is_lost("ps 0", 182, 272));
}

TEST_F(CountedFailures, AreForgottenAfterAHealthyMinuteBeforeALongTry) {
  for (int second = 0; second < 2000; second += 160) {
    EXPECT_FALSE(is_lost("ps 0", second, second + 90));
  }
}

TEST(Failures, OfLongTriesThatRunOutOfTimeAreForgivenAFewTimes) {
  internal::FailureClassifier failures({.ps_failures = 3, .timeouts = 2});
  const auto start = std::chrono::steady_clock::now();
  const auto kind_of_try = [&](int number) {
    const auto begun = start + number * std::chrono::seconds(91);
    return failures.classify({.code = Code::DeadlineExceeded, .message = ""}, begun,
                             begun + std::chrono::seconds(90));
  };
  EXPECT_EQ(kind_of_try(0), internal::FailureKind::Transient);
  EXPECT_EQ(kind_of_try(1), internal::FailureKind::Function);
}

TEST(Failures, AreCancellationsWhileEverythingIsCancelled) {
  const Status lost{.code = Code::Unavailable, .message = "worker 1 is lost"};
  const Status error = internal::error_when_cancelling(lost);
  EXPECT_EQ(error.code, Code::Cancelled);
  EXPECT_EQ(error.root().message, "worker 1 is lost");
  const Status own{.code = Code::OutOfRange, .message = "no more elements"};
  EXPECT_EQ(internal::error_when_cancelling(own).code, Code::OutOfRange);
}

TEST(FailureLimits, ComeFromTheEnvironment) {
  const auto limits = [](const char* ps, const char* timeouts) {
    const ScopedEnvironment given({{"TF_COORDINATOR_IGNORE_TRANSIENT_PS_FAILURES", ps},
                                   {"TF_COORDINATOR_IGNORE_TRANSIENT_TIMEOUTS", timeouts}});
    const internal::FailureLimits found = internal::FailureLimits::of(25);
    return std::pair{found.ps_failures, found.timeouts};
  };
  EXPECT_EQ(internal::FailureLimits::of(25).ps_failures, 3);
  EXPECT_EQ(internal::FailureLimits::of(25).timeouts, 2);
  EXPECT_EQ(internal::FailureLimits::of(9).timeouts, 0);
  EXPECT_EQ(limits("7", "0"), (std::pair{7, 0}));
  EXPECT_EQ(limits("many", "-1"), (std::pair{3, 2}));
  internal::FailureClassifier none({.ps_failures = 0, .timeouts = 0});
  EXPECT_TRUE(none.is_lost("ps 0", {}));
}

}  // namespace
}  // namespace cohort
