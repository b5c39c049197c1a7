#include "launch/stalls.h"

#include <gtest/gtest.h>

#include "launch/task_output.h"

namespace cohort::cli {
namespace {

using internal::ActivityWait;
using internal::WaitKind;

// worker:0, worker:1, worker:2, ps:0
std::vector<NamedTask> four_tasks() {
  return {{"worker:0", "/job:worker/replica:0/task:0", "h:1"},
          {"worker:1", "/job:worker/replica:0/task:1", "h:2"},
          {"worker:2", "/job:worker/replica:0/task:2", "h:3"},
          {"ps:0", "/job:ps/replica:0/task:0", "h:4"}};
}
ActivityWait tensor_of(const std::vector<std::string>& whom, double seconds = 6) {
  return {.kind = WaitKind::Tensor, .what = "[AllReduce] call 7", .whom = whom, .seconds = seconds};
}
ActivityWait answer_of(const std::vector<std::string>& whom) {
  return {.kind = WaitKind::Answer, .what = "step 3", .whom = whom, .seconds = 8};
}

TEST(Stalls, NameTheOneThatIsMissing) {
  const auto stalls = find_stalls(four_tasks(), {{tensor_of({"/job:worker/replica:0/task:1"})},
                                                 {},
                                                 {tensor_of({"/job:worker/replica:0/task:1"})},
                                                 {}});
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].guilty, std::vector<size_t>{1});
  ASSERT_EQ(stalls[0].waiting.size(), 2U);
  EXPECT_EQ(stalls[0].waiting[1].task, 2U);
  EXPECT_EQ(stalls[0].waiting[1].what, "[AllReduce] call 7");
}

TEST(Stalls, AreFollowedToTheirEnd) {
  // worker:0 for the ps, by its address; that for a tensor of worker:2.
  const auto stalls =
      find_stalls(four_tasks(), {{answer_of({"h:4"})}, {}, {}, {tensor_of({"worker:2"})}});
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].guilty, std::vector<size_t>{2});
  EXPECT_EQ(stalls[0].waiting.size(), 2U);
}

TEST(Stalls, BlameWhomATensorIsWaitedForOfWhenTwoWaitForEachOther) {
  // The ps waits for a gradient of worker:0, which as the master waits for the ps to be done.
  const auto stalls =
      find_stalls(four_tasks(), {{answer_of({"h:4"})}, {}, {}, {tensor_of({"worker:0"})}});
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].guilty, std::vector<size_t>{0});
  ASSERT_EQ(stalls[0].waiting.size(), 1U);
  EXPECT_EQ(stalls[0].waiting[0].task, 3U);
}

TEST(Stalls, AtAQueueAreThoseOfWhoeverIsToFillIt) {
  ActivityWait queue = tensor_of({internal::kAnyTask});
  queue.what = "[Queue] dequeue from 'tokens', which is empty";
  const auto stalls =
      find_stalls(four_tasks(), {{answer_of({"h:4"})}, {}, {answer_of({"h:4"})}, {queue}});
  ASSERT_EQ(stalls.size(), 1U);
  EXPECT_EQ(stalls[0].guilty, std::vector<size_t>{1});
  ASSERT_EQ(stalls[0].waiting.size(), 3U);
  EXPECT_EQ(stalls[0].waiting[2].what, queue.what);
  // All other tasks wait for the ps, so none of them can fill its queue.
  const auto all = find_stalls(
      four_tasks(), {{answer_of({"h:4"})}, {answer_of({"h:4"})}, {answer_of({"h:4"})}, {queue}});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].guilty, std::vector<size_t>{3});
  // No other task waits for a task that waits at its own queue, so that is not a stall.
  EXPECT_TRUE(find_stalls(four_tasks(), {{}, {}, {}, {queue}}).empty());
  EXPECT_TRUE(find_stalls(four_tasks(), {{queue}, {}, {}, {}}).empty());
}

TEST(Stalls, TellCirclesAndStrangersAndSelfApart) {
  const auto circle =
      find_stalls(four_tasks(), {{tensor_of({"worker:1"})}, {tensor_of({"worker:0"})}, {}, {}});
  ASSERT_EQ(circle.size(), 1U);
  EXPECT_TRUE(circle[0].circle);
  EXPECT_EQ(circle[0].guilty, (std::vector<size_t>{0, 1}));
  const auto stranger = find_stalls(four_tasks(), {{answer_of({"10.0.0.9:2222"})}, {}, {}, {}});
  ASSERT_EQ(stranger.size(), 1U);
  EXPECT_TRUE(stranger[0].guilty.empty());
  EXPECT_EQ(stranger[0].strangers, std::vector<std::string>{"10.0.0.9:2222"});
  EXPECT_TRUE(find_stalls(four_tasks(), {{answer_of({"worker:0"})}, {}, {}, {}}).empty());
}

TEST(Stalls, ThatHaveNothingToDoWithEachOtherAreTwo) {
  const auto stalls =
      find_stalls(four_tasks(), {{answer_of({"ps:0"})}, {}, {tensor_of({"worker:1"})}, {}});
  ASSERT_EQ(stalls.size(), 2U);
  EXPECT_EQ(stalls[0].guilty, std::vector<size_t>{1});
  EXPECT_EQ(stalls[1].guilty, std::vector<size_t>{3});
}

// A watch whose clock the test has.
struct Watched {
  StallWatch watch{four_tasks(),
                   {.ask_place = [this](size_t task) { asked.push_back(task); },
                    .say = [this](const std::string& text) { said.push_back(text); }}};
  std::vector<size_t> asked;
  std::vector<std::string> said;
  StallWatch::Clock::time_point now = StallWatch::Clock::now();

  void wait(double seconds) {
    for (const size_t task : {0, 2, 3}) {
      watch.set_waits(task, {tensor_of({"worker:1"}, seconds)});
    }
    now += std::chrono::seconds(1);
    watch.look(now);
  }
};

TEST(StallWatch, SaysWhoIsWaitedForAndWhereThatOneIs) {
  Watched run;
  run.wait(6);
  EXPECT_EQ(run.asked, std::vector<size_t>{1});
  EXPECT_TRUE(run.said.empty());
  run.watch.place_found(
      1, {.doing = "sleeps", .input_seconds = 6.5, .frames = {"read_line at input.cc:7"}});
  run.watch.look(run.now);
  ASSERT_EQ(run.said.size(), 1U);
  EXPECT_EQ(run.said[0],
            "all other tasks wait for worker:1, for 6.0 s\n"
            "  worker:0, worker:2, ps:0: in [AllReduce] call 7\n"
            "  worker:1 has been getting its input for 6.5 s and sleeps\n"
            "    #0  read_line at input.cc:7");
}

TEST(Frames, KeepTheirPlaceWhenTheirNamesAreLong) {
  EXPECT_EQ(shortened_frame("f at a.cc:3"), "f at a.cc:3");
  const std::string cut = shortened_frame(std::string(500, 'f') + " at a.cc:3");
  EXPECT_EQ(cut.size(), 160U);
  EXPECT_TRUE(cut.starts_with("fff"));
  EXPECT_TRUE(cut.ends_with("fff... at a.cc:3"));
}

TEST(StallWatch, DoesNotWaitForAPlaceForEver) {
  Watched run;
  for (int second = 0; second < 4; ++second) run.wait(6 + second);
  ASSERT_EQ(run.said.size(), 1U);
  EXPECT_NE(run.said[0].find("worker:1 does not say where it is"), std::string::npos);
}

TEST(StallWatch, RepeatsItselfWhenTwiceTheTimeHasPassed) {
  Watched run;
  run.wait(6);
  run.watch.place_found(1, {.doing = "computes"});
  for (int second = 6; second < 30; ++second) {
    run.wait(second);
    run.watch.place_found(1, {.doing = "computes"});
  }
  EXPECT_EQ(run.said.size(), 3U);  // after 6, 12 and 24 s
}

TEST(StallWatch, SaysWhenItIsOverAndWhoHasEnded) {
  Watched run;
  run.wait(6);
  run.watch.ended(1);
  run.watch.look(run.now);
  ASSERT_EQ(run.said.size(), 1U);
  EXPECT_NE(run.said[0].find("worker:1 has ended"), std::string::npos) << run.said[0];
  run.watch.runs(1);
  for (const size_t task : {0, 2, 3}) run.watch.set_waits(task, {});
  run.watch.look(run.now);
  EXPECT_EQ(run.said.back(), "no task waits for worker:1 any more, after 6.0 s");
}

}  // namespace
}  // namespace cohort::cli
