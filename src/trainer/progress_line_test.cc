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
  EXPECT_EQ(progress_text(progress, {{"loss", 0.25}}, 10),
            "epoch 2/5 [==========          ] step 130  loss 0.25  100 examples/s  10 s left  "
            "input 10 %  compute 70 %  update 20 %");
}

TEST(ProgressLine, HasNoBarWhereTheEndIsUnknown) {
  const TrainingProgress progress = {.epoch = 1, .epochs = 1, .step = 7, .step_of_epoch = 7};
  EXPECT_EQ(progress_text(progress, {}, 0), "epoch 1/1 step 7");
}

TEST(ProgressLine, CountsLongTimesInMinutes) {
  const TrainingProgress progress = {
      .epoch = 1, .epochs = 1, .step_of_epoch = 1, .steps_per_epoch = 61, .examples = 4};
  EXPECT_NE(progress_text(progress, {}, 4).find("  4 min left"), std::string::npos);
}

}  // namespace
}  // namespace cohort::internal
