#include "cohort/hooks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "graph_training/every_timer.h"
#include "support/expect_error.h"
#include "support/memory_saver.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using Lines = std::vector<std::string>;

class Notes : public ScalarSink {
 public:
  void add_scalar(const std::string& tag, double value, int64_t step) override {
    lines.push_back(tag + "@" + std::to_string(step) + "=" + std::to_string(value).substr(0, 3));
  }
  void flush() override { flushed = true; }
  Lines lines;
  bool flushed = false;
};

// A session whose training op counts the global step up.
class HookTests : public ::testing::Test {
 protected:
  HookTests() : building_(graph_.as_default()) {
    step_ = global_step().read_value();
    train_ = global_step().assign_add(int64_t{1});
  }

  // Runs until a hook stops it, or that many times; returns the number of runs.
  int train(const Hooks& hooks, int most = 100) {
    MonitoredSession session({.hooks = hooks});
    int runs = 0;
    session.manage([&] {
      for (; runs < most && !session.should_stop(); ++runs) session.run(train_);
    });
    return runs;
  }

  Graph graph_;
  Graph::Scope building_;
  Tensor step_, train_;
};

TEST_F(HookTests, StopAtTheLastStep) {
  EXPECT_EQ(train({std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 7})}), 7);
}

TEST_F(HookTests, StopAfterAReachedLastStepWithTheFirstRun) {
  EXPECT_EQ(train({std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 0})}), 1);
}

TEST_F(HookTests, StopAfterANumberOfStepsFromTheFirstSession) {
  Tensor set;
  {
    Variable step = global_step();
    set = step.assign(int64_t{10});
  }
  const auto hook = std::make_shared<StopAtStepHook>(StopAtStepOptions{.num_steps = 3});
  MonitoredSession session(
      {.session_creator = std::make_shared<ChiefSessionCreator>(
           SessionCreatorOptions{.scaffold = {.init_fn = [=](Session& made) { made.run(set); }}}),
       .hooks = {hook}});
  int runs = 0;
  for (; !session.should_stop(); ++runs) session.run(train_);
  EXPECT_EQ(runs, 3);
}

TEST_F(HookTests, StopAtStepTakesExactlyOneLimit) {
  EXPECT_ERROR(Code::InvalidArgument, "got none", StopAtStepHook({}));
  EXPECT_ERROR(Code::InvalidArgument, "got both", StopAtStepHook({.num_steps = 1, .last_step = 1}));
}

TEST(Hooks, NeedAGlobalStep) {
  Graph graph;
  const auto building = graph.as_default();
  constant(Tensor(1.f));
  EXPECT_ERROR(
      Code::FailedPrecondition, "[StopAtStepHook] the graph has no global step",
      MonitoredSession(
          {.hooks = {std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 1})}}));
}

TEST_F(HookTests, NanThrowsOrStops) {
  const Tensor loss = log(cast(3 - step_, kFloat32));  // NaN from step 4 on
  EXPECT_ERROR(Code::InvalidArgument, "the loss is NaN",
               train({std::make_shared<NanTensorHook>(loss)}));
}

TEST_F(HookTests, NanStopsWhenTold) {
  const Tensor loss = log(cast(3 - step_, kFloat32));
  const int runs = train({std::make_shared<NanTensorHook>(loss, OnNan::Stop)});
  EXPECT_GE(runs, 4);
  EXPECT_LE(runs, 5);  // the loss may be computed before or after the step counts up
}

TEST_F(HookTests, SaveAtTheStartEveryFewStepsAndAtTheEnd) {
  const auto saver = std::make_shared<MemorySaver>();
  train({std::make_shared<CheckpointSaverHook>(CheckpointSaverOptions{
            .checkpoint_dir = "directory", .every = {.steps = 4}, .saver = saver})},
        10);
  EXPECT_EQ(saver->paths(), (Lines{"directory/model.ckpt-0", "directory/model.ckpt-4",
                                   "directory/model.ckpt-8", "directory/model.ckpt-10"}));
}

TEST_F(HookTests, SaveTheLastStepOnce) {
  const auto saver = std::make_shared<MemorySaver>();
  train(
      {std::make_shared<CheckpointSaverHook>(CheckpointSaverOptions{
          .checkpoint_dir = "directory", .every = {.steps = 5}, .saver = saver, .basename = "m"})},
      5);
  EXPECT_EQ(saver->paths(), (Lines{"directory/m-0", "directory/m-5"}));
}

// Makes a variable in the last call in which a hook may.
class LateVariable : public SessionRunHook {
 public:
  void begin() override { Variable late(7.f, {.name = "late"}); }
};

TEST_F(HookTests, SaveInASessionThatKnowsNoSaver) {
  const TemporaryDirectory directory;
  MonitoredSession session(
      {.hooks = {std::make_shared<CheckpointSaverHook>(CheckpointSaverOptions{
                     .checkpoint_dir = directory.path(), .every = {.steps = 2}}),
                 std::make_shared<LateVariable>()}});
  session.manage([&] {
    for (int i = 0; i < 3; ++i) session.run(train_);
  });
  const CheckpointReader last(directory.path() + "/model.ckpt-3");
  EXPECT_EQ(last.read("late").to<float>(), 7);
  EXPECT_TRUE(checkpoint_exists(directory.path() + "/model.ckpt-0"));
}

TEST_F(HookTests, CheckpointSaverNeedsADirectoryAndOneInterval) {
  const auto saver = std::make_shared<MemorySaver>();
  EXPECT_ERROR(Code::InvalidArgument, ".checkpoint_dir must be given", CheckpointSaverHook({}));
  EXPECT_ERROR(Code::InvalidArgument, "exactly one of .steps and .time must be given, got both",
               CheckpointSaverHook({.checkpoint_dir = "d",
                                    .every = {.steps = 1, .time = std::chrono::seconds(1)},
                                    .saver = saver}));
  EXPECT_ERROR(Code::InvalidArgument, "got none",
               CheckpointSaverHook({.checkpoint_dir = "d", .every = {}, .saver = saver}));
  EXPECT_ERROR(Code::InvalidArgument, "must be positive, got 0 steps",
               CheckpointSaverHook({.checkpoint_dir = "d", .every = {.steps = 0}, .saver = saver}));
  EXPECT_ERROR(
      Code::InvalidArgument, "must not be negative, got -1000 ms",
      CheckpointSaverHook(
          {.checkpoint_dir = "d", .every = {.time = std::chrono::seconds(-1)}, .saver = saver}));
}

TEST_F(HookTests, CountStepsPerSecond) {
  const auto notes = std::make_shared<Notes>();
  train({std::make_shared<StepCounterHook>(
            StepCounterOptions{.every = {.steps = 5}, .summary_writer = notes})},
        12);
  ASSERT_EQ(notes->lines.size(), 2u);  // the first time there is nothing to compare with
  EXPECT_EQ(notes->lines[0].substr(0, 17), "global_step/sec@6");
  EXPECT_EQ(notes->lines[1].substr(0, 18), "global_step/sec@11");
}

TEST_F(HookTests, WriteSummariesAtTheFirstRunAndEveryFewSteps) {
  const auto notes = std::make_shared<Notes>();
  train({std::make_shared<SummarySaverHook>(SummarySaverOptions{
            .scalars = {{"two", constant(Tensor(2.f))}, {"one", constant(Tensor(1))}},
            .every = {.steps = 3},
            .summary_writer = notes})},
        5);
  EXPECT_EQ(notes->lines, (Lines{"one@1=1.0", "two@1=2.0", "one@4=1.0", "two@4=2.0"}));
  EXPECT_TRUE(notes->flushed);
  EXPECT_ERROR(Code::InvalidArgument, ".scalars must be given",
               SummarySaverHook({.summary_writer = notes}));
  EXPECT_ERROR(Code::InvalidArgument, ".summary_writer must be given", SummarySaverHook({}));
}

TEST_F(HookTests, WriteTheSummariesThatAGraphHasMarked) {
  const auto notes = std::make_shared<Notes>();
  const Tensor two = constant(Tensor(2.f));
  summary::scalar("loss", two);
  summary::scalar("loss", constant(Tensor(3.f)));
  {
    const NameScope layer("layer");
    summary::scalar("rate", constant(Tensor(1)));
  }
  EXPECT_ERROR(Code::InvalidArgument, "the tag is empty", summary::scalar("", two));
  EXPECT_ERROR(Code::InvalidArgument, "'v' must be one number, got shape (2,)",
               summary::scalar("v", constant({1.f, 2.f})));
  train({std::make_shared<SummarySaverHook>(SummarySaverOptions{
            .scalars = summary::merge_all(), .every = {.steps = 9}, .summary_writer = notes})},
        2);
  EXPECT_EQ(notes->lines, (Lines{"layer/rate@1=1.0", "loss@1=2.0", "loss_1@1=3.0"}));
  const Graph::Scope outside(nullptr);
  EXPECT_ERROR(Code::FailedPrecondition, "no graph is being built", summary::merge_all());
  EXPECT_ERROR(Code::FailedPrecondition, "SummaryWriter::add_scalar", summary::scalar("x", two));
}

TEST_F(HookTests, LogTensorsEveryFewRunsAndAtTheEnd) {
  Lines lines;
  train({std::make_shared<LoggingTensorHook>(LoggingTensorOptions{
            .tensors = {{"rate", constant(Tensor(0.5f))}, {"n", constant(Tensor(3))}},
            .every = {.steps = 2},
            .at_end = true,
            .write = [&](const std::string& line) { lines.push_back(line); }})},
        4);
  EXPECT_EQ(lines, (Lines{"n = 3, rate = 0.5", "n = 3, rate = 0.5", "n = 3, rate = 0.5"}));
  EXPECT_ERROR(Code::InvalidArgument, ".tensors must be given", LoggingTensorHook({}));
}

TEST(EveryTimer, IsDueAfterATimeOrStepsSinceTheLastTime) {
  std::chrono::steady_clock::time_point now{};
  const auto clock = [&] { return now; };
  internal::EveryTimer seconds("t", {.time = std::chrono::seconds(10)}, clock);
  EXPECT_TRUE(seconds.due(0));
  EXPECT_FALSE(seconds.happened(0));
  now += std::chrono::seconds(9);
  EXPECT_FALSE(seconds.due(5));
  now += std::chrono::seconds(1);
  EXPECT_TRUE(seconds.due(5));
  EXPECT_FALSE(seconds.due(0));  // no step was made
  const auto elapsed = seconds.happened(5);
  ASSERT_TRUE(elapsed);
  EXPECT_EQ(elapsed->steps, 5);
  EXPECT_EQ(elapsed->time, std::chrono::seconds(10));
  internal::EveryTimer steps("t", {.steps = 3}, clock);
  steps.happened(4);
  EXPECT_FALSE(steps.due(6));
  EXPECT_TRUE(steps.due(7));
  internal::EveryTimer never("t", {.time = std::chrono::milliseconds::max()}, clock);
  never.happened(0);
  now += std::chrono::hours(24 * 365);
  EXPECT_FALSE(never.due(1)) << "the time must not overflow";
}

}  // namespace
}  // namespace cohort
