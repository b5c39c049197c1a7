#include "trainer/progress_line.h"

#include <gtest/gtest.h>

#include <chrono>

namespace cohort::internal {
namespace {

using namespace std::chrono_literals;

TEST(ProgressLine, SaysHowFarHowWellAndWhereTheTimeGoes) {
  const TrainingProgress progress = {.epoch = 2,
                                     .epochs = 5,
                                     .step = 130,
                                     .step_of_epoch = 50,
                                     .steps_per_epoch = 100,
                                     .examples = 1000,
                                     .times = {.input = 1s, .compute = 7s, .update = 2s}};
  EXPECT_EQ(progress_text(progress, {{"loss", 0.25}}, {.seconds = 10, .fit_seconds = 26}),
            "epoch 2/5 [==========          ] step 130  loss 0.25  70 s left  100 examples/s  "
            "input 10 %  compute 70 %  update 20 %")
      << "the time left is that of all five epochs";
}

TEST(ProgressLine, HasNoBarWhereTheEndIsUnknown) {
  const TrainingProgress progress = {.epoch = 1, .epochs = 1, .step = 7, .step_of_epoch = 7};
  EXPECT_EQ(progress_text(progress, {}, {}), "epoch 1/1 step 7");
}

TEST(ProgressLine, CountsLongTimesInMinutesAndHours) {
  const TrainingProgress progress = {
      .epoch = 1, .epochs = 1, .step = 1, .step_of_epoch = 1, .steps_per_epoch = 61};
  const auto text = [&](double seconds) {
    return progress_text(progress, {}, {.fit_seconds = seconds});
  };
  EXPECT_TRUE(text(4).ends_with("  4 min left")) << text(4);
  EXPECT_TRUE(text(90).ends_with("  1.5 h left")) << text(90);
}

// Steps from before the restart took none of the new process's time.
TEST(ProgressLine, CountsWhatThisProcessHasDone) {
  const TrainingProgress progress = {.epoch = 1,
                                     .epochs = 1,
                                     .step = 190,
                                     .step_of_epoch = 90,
                                     .steps_per_epoch = 100,
                                     .examples = 900,
                                     .times = {}};
  const Pace pace = {
      .seconds = 5, .examples_before = 800, .fit_seconds = 5, .fit_steps_before = 180};
  EXPECT_EQ(progress_text(progress, {}, pace),
            "epoch 1/1 [==================  ] step 190  5 s left  20 examples/s");
}

TEST(ProgressLine, IsOneRowOfTheTerminal) {
  EXPECT_EQ(over_line("0123456789", 0, 8), "\r0123456");
  EXPECT_EQ(over_line("012", 7, 8), "\r012    ");
  EXPECT_EQ(over_line("012", 90, 8), "\r012    ") << "the window has become narrower";
  EXPECT_EQ(over_line("0123456789", 3, 0), "\r0123456789");
}

}  // namespace
}  // namespace cohort::internal
