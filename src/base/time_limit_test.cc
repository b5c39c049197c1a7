#include "base/time_limit.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Ms = std::chrono::milliseconds;

TEST(TimeLimit, IsEmptyOrPositive) {
  EXPECT_NO_THROW(check_time_limit("Run", "timeout", std::nullopt));
  EXPECT_NO_THROW(check_time_limit("Run", "timeout", Ms::max()));
  EXPECT_ERROR(Code::InvalidArgument,
               "[Run] timeout must be positive, got 0 ms; leave it empty for no limit",
               check_time_limit("Run", "timeout", Ms(0)));
  EXPECT_ERROR(Code::InvalidArgument, "got -1 ms; wait longer",
               check_time_limit("Run", "timeout", Ms(-1), "wait longer"));
}

TEST(TimeLimit, IsEmptyIfItIsTheZeroOfTensorFlow) {
  EXPECT_EQ(given_time_limit("Run", "timeout", std::nullopt), std::nullopt);
  EXPECT_EQ(given_time_limit("Run", "timeout", Ms(0)), std::nullopt);
  EXPECT_EQ(given_time_limit("Run", "timeout", Ms(7)), Ms(7));
  EXPECT_ERROR(Code::InvalidArgument,
               "[Run] timeout must not be negative, got -1 ms; leave it empty for no limit",
               given_time_limit("Run", "timeout", Ms(-1)));
}

TEST(TimeLimit, OfACollectiveCallIsEndlessIfItIsZero) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(endless_if_zero(std::nullopt), std::nullopt);
  EXPECT_EQ(endless_if_zero(nanoseconds(0)), nanoseconds::max());
  EXPECT_EQ(endless_if_zero(nanoseconds(7)), nanoseconds(7));
}

TEST(TimeLimit, IsAtMostAYearInRequests) {
  EXPECT_EQ(request_limit(std::nullopt), Ms(0));
  EXPECT_EQ(request_limit(Ms(7)), Ms(7));
  EXPECT_EQ(request_limit(Ms::max()), std::chrono::hours(24 * 365));
}

}  // namespace
}  // namespace cohort::internal
