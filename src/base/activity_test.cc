#include "base/activity.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

namespace cohort::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Activity, NamesAWaitForAsLongAsItsNoteLives) {
  {
    const steady_clock::time_point since{std::chrono::hours(1)};
    WaitNote moved;
    {
      WaitNote note(WaitKind::Answer, "step 7\nof a session", {"/job:ps/task:0", "h:2222"}, since);
      moved = std::move(note);
    }
    const Activity activity = local_activity(since + milliseconds(1500));
    ASSERT_EQ(activity.waits.size(), 1U);
    EXPECT_EQ(activity.process, getpid());
    EXPECT_EQ(activity.waits[0].kind, WaitKind::Answer);
    EXPECT_EQ(activity.waits[0].what, "step 7 of a session");
    EXPECT_EQ(activity.waits[0].whom, (std::vector<std::string>{"/job:ps/task:0", "h:2222"}));
    EXPECT_EQ(activity.waits[0].seconds, 1.5);
  }
  EXPECT_TRUE(local_activity().waits.empty());
}

TEST(Activity, SaysHowFarATrainingIs) {
  EXPECT_EQ(local_activity().progress, ProgressNote{}) << "nothing was noted";
  note_progress({.text = "epoch 1/2\nloss 3"});
  EXPECT_EQ(local_activity().progress, ProgressNote{.text = "epoch 1/2 loss 3"});
  note_progress({.text = std::string(1000, 'x'), .quiet = true});
  EXPECT_EQ(local_activity().progress, (ProgressNote{std::string(256, 'x'), true}));
  note_progress({});
  EXPECT_EQ(local_activity().progress, ProgressNote{});
  EXPECT_FALSE(is_watched()) << "there is no file";
}

TEST(Activity, CutsWhatDoesNotFitAndDropsWhatIsTooMuch) {
  const std::string text(1000, 'x');
  std::vector<WaitNote> notes;
  for (int i = 0; i < 100; ++i) {
    notes.emplace_back(WaitKind::Tensor, text, std::vector<std::string>{}, steady_clock::now());
  }
  const Activity activity = local_activity();
  EXPECT_EQ(activity.waits.size(), 16U);
  EXPECT_EQ(activity.waits.at(0).what, text.substr(0, 256));
  notes.clear();
  EXPECT_TRUE(local_activity().waits.empty());
}

TEST(Activity, IsNeverReadHalfWritten) {
  std::atomic<bool> over = false;
  std::thread writer([&] {
    for (int i = 0; !over; ++i) {
      const std::string name(static_cast<size_t>(1 + i % 200), static_cast<char>('a' + i % 20));
      const WaitNote note(WaitKind::Tensor, name, {name}, steady_clock::now());
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    for (const ActivityWait& wait : local_activity().waits) {
      ASSERT_EQ(wait.whom, std::vector<std::string>{wait.what});
    }
  }
  over = true;
  writer.join();
}

TEST(Activity, CountsInputGroupWaitsAndSteps) {
  const Activity before = local_activity();
  double lasted = 0;
  {
    const InputNote input;
    const auto later = steady_clock::now() + std::chrono::hours(1);
    EXPECT_GE(local_activity(later).current_input_seconds, 3600);
    lasted = std::chrono::duration<double>(input.duration()).count();
  }
  note_group_wait(milliseconds(250));
  note_step();
  const Activity after = local_activity();
  EXPECT_GE(after.input_seconds, before.input_seconds + lasted);
  EXPECT_GT(lasted, 0);
  EXPECT_NEAR(after.wait_seconds - before.wait_seconds, 0.25, 1e-6);
  EXPECT_EQ(after.steps, before.steps + 1);
  EXPECT_EQ(after.current_input_seconds, 0);
}

// A path that is removed again.
struct TemporaryFile {
  TemporaryFile() { close(mkstemp(path)); }
  ~TemporaryFile() { unlink(path); }
  char path[32] = "/tmp/cohort_activity_XXXXXX";
};

TEST(Activity, OfAnotherProcessIsReadFromItsFile) {
  const TemporaryFile file;
  setenv("COHORT_ACTIVITY_FILE", file.path, 1);
  const std::string program = testing::internal::GetArgvs()[0];
  // The other process is this test program, which runs the test above.
  const std::string command = program + " --gtest_filter=Activity.CountsInput* > /dev/null";
  const int status = std::system(command.c_str());
  unsetenv("COHORT_ACTIVITY_FILE");
  ASSERT_EQ(status, 0);
  const auto activity = read_activity(file.path);
  ASSERT_TRUE(activity.has_value());
  EXPECT_EQ(activity->steps, 1U);
  EXPECT_NEAR(activity->wait_seconds, 0.25, 1e-6);
  EXPECT_NE(activity->process, getpid());
}

TEST(Activity, OfAFileThatIsNoneIsNothing) {
  const TemporaryFile file;
  EXPECT_FALSE(read_activity(file.path).has_value());
  std::ofstream(file.path) << std::string(100'000, 'x');
  EXPECT_FALSE(read_activity(file.path).has_value());
  EXPECT_FALSE(read_activity("/nowhere/at/all").has_value());
}

}  // namespace
}  // namespace cohort::internal
