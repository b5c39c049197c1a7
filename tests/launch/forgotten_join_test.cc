// What the log says when a chief ends without join().

#include <gtest/gtest.h>

#include "launch/launch.h"

namespace cohort::test {
namespace {

Launched chief_that(const std::string& way) {
  const LaunchDirectory directory;
  Launched run = launch(
      {"--strategy", "parameter_server", "--workers", "2", "--ps", "1", COORDINATOR_TASK, way});
  EXPECT_EQ(run.code, 0) << run.output;
  return run;
}

TEST(ForgottenJoin, LeavesFunctionsThatTheLogCounts) {
  const Launched run = chief_that("forgets");
  EXPECT_TRUE(
      contains(run.output, " W [main] [Coordinator] the coordinator ended without join(): "))
      << run.output;
  EXPECT_TRUE(contains(run.output, " scheduled functions did not finish; call join() before"))
      << run.output;
}

TEST(ForgottenJoin, LeavesAnErrorThatTheLogShows) {
  const Launched run = chief_that("forgets_error");
  EXPECT_TRUE(contains(run.output,
                       " E [main] [Coordinator] the coordinator ended without join(): no call "
                       "threw the first error; call join() before"))
      << run.output;
  EXPECT_TRUE(contains(run.output, "[Gather] index 99 is outside of a dimension of size 1"))
      << run.output;
}

class NothingForgotten : public testing::TestWithParam<const char*> {};

TEST_P(NothingForgotten, IsNothingToLog) {
  const Launched run = chief_that(GetParam());
  EXPECT_FALSE(contains(run.output, "without join()")) << run.output;
}

INSTANTIATE_TEST_SUITE_P(Ways, NothingForgotten,
                         testing::Values("joins", "joins_error", "fetches_error", "throws",
                                         "shuts_down"));

}  // namespace
}  // namespace cohort::test
