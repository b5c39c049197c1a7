#include "trainer/progress_line.h"

#include <gtest/gtest.h>

namespace cohort::internal {
namespace {

TEST(ProgressLine, SaysHowFarHowWellAndWhereTheTimeGoes) {
  const TrainingProgress progress = {.epoch = 2,
                                     .epochs = 5,
                                     .step = 130,
                                     .step_of_epoch = 50,
                                     .steps_per_epoch = 100,
                                     .examples = 1000,
                                     .times = {.input = 1, .compute = 7, .update = 2}};
  EXPECT_EQ(progress_text(progress, {{"loss", 0.25}}, {.seconds = 10}),
            "epoch 2/5 [==========          ] step 130  loss 0.25  100 examples/s  10 s left  "
            "input 10 %  compute 70 %  update 20 %");
}

TEST(ProgressLine, HasNoBarWhereTheEndIsUnknown) {
  const TrainingProgress progress = {.epoch = 1, .epochs = 1, .step = 7, .step_of_epoch = 7};
  EXPECT_EQ(progress_text(progress, {}, {}), "epoch 1/1 step 7");
}

TEST(ProgressLine, CountsLongTimesInMinutes) {
  const TrainingProgress progress = {
      .epoch = 1, .epochs = 1, .step_of_epoch = 1, .steps_per_epoch = 61, .examples = 4};
  EXPECT_NE(progress_text(progress, {}, {.seconds = 4}).find("  4 min left"), std::string::npos);
}

// What was done before the process was started again took none of its time.
TEST(ProgressLine, CountsWhatThisProcessHasDone) {
  const TrainingProgress progress = {.epoch = 1,
                                     .epochs = 1,
                                     .step = 90,
                                     .step_of_epoch = 90,
                                     .steps_per_epoch = 100,
                                     .examples = 900,
                                     .times = {}};
  EXPECT_EQ(progress_text(progress, {}, {.seconds = 5, .steps_before = 80, .examples_before = 800}),
            "epoch 1/1 [==================  ] step 90  20 examples/s  5 s left");
}

TEST(ProgressLine, IsOneRowOfTheTerminal) {
  EXPECT_EQ(over_line("0123456789", 0, 8), "\r0123456");
  EXPECT_EQ(over_line("012", 7, 8), "\r012    ");
  EXPECT_EQ(over_line("012", 90, 8), "\r012    ") << "the window has become narrower";
  EXPECT_EQ(over_line("0123456789", 3, 0), "\r0123456789");
}

}  // namespace
}  // namespace cohort::internal
