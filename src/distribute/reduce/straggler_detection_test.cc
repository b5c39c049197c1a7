#include <gtest/gtest.h>

#include "distribute/reduce/worker_gradients.h"

namespace cohort::internal {
namespace {

std::vector<float> shares(std::vector<float> total, float divisor) {
  for (float& each : total) each /= divisor;
  return total;
}

// A quarter of it is input, and an eighth is saving.
BusyTimes of(const std::vector<float>& total) {
  return {.total = total, .input = shares(total, 4), .saving = shares(total, 8)};
}

TEST(SlowWorkerWatch, NamesTheOneThatOthersWaitForWithin20Steps) {
  SlowWorkerWatch watch;
  for (int step = 1; step < SlowWorkerWatch::kSteps; ++step) {
    EXPECT_FALSE(watch.add(of({0.010f, 0.013f, 0.010f})));
  }
  const auto found = watch.add(of({0.010f, 0.013f, 0.010f}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->worker, 1u);
  EXPECT_NEAR(found->seconds, 0.013, 1e-6);
  EXPECT_NEAR(found->input_seconds, 0.013 / 4, 1e-6);
  EXPECT_NEAR(found->saving_seconds, 0.013 / 8, 1e-6);
  EXPECT_NEAR(found->compute_seconds(), 0.013 * 5 / 8, 1e-6);
  EXPECT_NEAR(found->others_seconds, 0.010, 1e-6);
}

TEST(SlowWorkerWatch, SaysItLessAndLessOften) {
  SlowWorkerWatch watch;
  std::vector<int> when;
  for (int step = 1; step <= 150; ++step) {
    if (watch.add(of({0.02f, 0.01f}))) when.push_back(step);
  }
  EXPECT_EQ(when, (std::vector<int>{20, 60, 140}));
}

TEST(SlowWorkerWatch, IsQuietAboutNoiseAndOneWorker) {
  SlowWorkerWatch watch;
  SlowWorkerWatch alone;
  for (int step = 0; step < 200; ++step) {
    const float noise = step % 2 == 0 ? 0.001f : 0.f;
    EXPECT_FALSE(watch.add(of({0.010f + noise, 0.011f - noise})));
    EXPECT_FALSE(alone.add(of({0.010f})));
  }
  for (int step = 0; step < 200; ++step) {
    EXPECT_FALSE(watch.add(of({0.00001f, 0.00002f})));
  }
}

// Those of a test or an example, in which a printed line makes a worker slow.
TEST(SlowWorkerWatch, IsQuietAboutStepsOfAFewMilliseconds) {
  SlowWorkerWatch watch;
  for (int step = 0; step < 200; ++step) EXPECT_FALSE(watch.add(of({0.008f, 0.0006f})));
}

}  // namespace
}  // namespace cohort::internal
