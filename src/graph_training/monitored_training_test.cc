// Sessions with checkpoints, summaries and a chief.

#include "graph_training/session_manager.h"
#include "support/memory_saver.h"
#include "support/monitored_sessions.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

TEST_F(MonitoredSessions, TrainAsChiefWithCheckpointsAndGoOnFromThem) {
  Variable step = global_step();
  const Tensor train = step.assign_add(int64_t{1});
  const auto saver = std::make_shared<MemorySaver>();
  Scaffold scaffold{.saver = saver};
  scaffold.finalize();  // so that two sessions can use the graph
  class StopAfterTwo : public SessionRunHook {
   public:
    void after_run(SessionRunContext& context, const SessionRunValues&) override {
      if (++runs_ == 2) context.request_stop();
    }

   private:
    int runs_ = 0;
  };
  const auto run_two = [&] {
    MonitoredSession session(
        {.session_creator = std::make_shared<ChiefSessionCreator>(
             SessionCreatorOptions{.scaffold = scaffold, .checkpoint_dir = "directory"}),
         .hooks = {std::make_shared<StopAfterTwo>()}});
    int64_t now = 0;
    session.manage([&] {
      while (!session.should_stop()) now = session.run(train).to<int64_t>();
      saver->save(session.raw_session(), "directory/model", now);
    });
    return now;
  };
  EXPECT_EQ(run_two(), 2);
  EXPECT_EQ(run_two(), 4);
}

TEST_F(MonitoredSessions, GiveTheChiefItsHooks) {
  Variable step = global_step();
  const Tensor train = step.assign_add(int64_t{1});
  const auto saver = std::make_shared<MemorySaver>();
  const auto chief_only = std::make_shared<DiaryHook>("chief", lines_);
  MonitoredTrainingSession session({.checkpoint_dir = "directory",
                                    .scaffold = {.saver = saver},
                                    .chief_only_hooks = {chief_only},
                                    .save_checkpoint = {.steps = 2}});
  session.manage([&] {
    for (int i = 0; i < 3; ++i) session.run(train);
  });
  EXPECT_EQ(saver->paths(),
            (Lines{"directory/model.ckpt-0", "directory/model.ckpt-2", "directory/model.ckpt-3"}));
  EXPECT_EQ(lines_.front(), "chief begin");
}

TEST_F(MonitoredSessions, WriteNoCheckpointsAndSummariesWhenTold) {
  Variable step = global_step();
  const Tensor train = step.assign_add(int64_t{1});
  const auto saver = std::make_shared<MemorySaver>();
  const TemporaryDirectory directory;
  MonitoredTrainingSession session(
      {.checkpoint_dir = directory.path(),
       .scaffold = {.saver = saver},
       .save_checkpoint = {},
       .summary_writer = std::make_shared<SummaryWriter>(directory.path()),
       .summaries = {{"three", three_}},
       .save_summaries = {}});
  session.manage([&] { session.run(train); });
  EXPECT_TRUE(saver->paths().empty());
}

TEST_F(MonitoredSessions, GoOnFromTheLastCheckpoint) {
  const TemporaryDirectory directory;
  const auto count_to = [&](int64_t last) {
    Graph graph;
    const auto building = graph.as_default();
    Variable step = global_step();
    const Tensor train = step.assign_add(int64_t{1});
    const Tensor count = step.read_value();
    int64_t first = -1;
    MonitoredTrainingSession session(
        {.checkpoint_dir = directory.path(),
         .hooks = {std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = last})}});
    session.manage([&] {
      first = session.run(count).to<int64_t>();
      while (!session.should_stop()) session.run(train);
    });
    return first;
  };
  EXPECT_EQ(count_to(3), 0);
  EXPECT_EQ(count_to(5), 3);
  EXPECT_EQ(*latest_checkpoint(directory.path()), directory.path() + "/model.ckpt-5");
}

TEST_F(MonitoredSessions, WaitAsWorkers) {
  get_variable("v", {.shape = {}});
  EXPECT_ERROR(Code::DeadlineExceeded, "not initialised: v",
               MonitoredTrainingSession({.is_chief = false, .max_wait = milliseconds(5)}));
}

TEST_F(MonitoredSessions, HaveTheDefaultsOfTheField) {
  const MonitoredTrainingSessionOptions training;
  EXPECT_EQ(training.save_checkpoint.time, std::chrono::minutes(10));
  EXPECT_EQ(training.save_summaries.steps, 100);
  EXPECT_EQ(training.log_step_count_steps, 100);
  EXPECT_EQ(training.stop_grace_period, std::chrono::seconds(120));
  EXPECT_EQ(training.max_wait, std::chrono::hours(2));
  EXPECT_EQ(SessionCreatorOptions().max_wait, std::chrono::minutes(30));
  EXPECT_EQ(internal::SessionManagerOptions().recovery_wait, std::chrono::seconds(30));
}

}  // namespace
}  // namespace cohort
