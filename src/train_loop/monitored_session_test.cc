#include "cohort/monitored_session.h"

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/memory_saver.h"
#include "support/temporary_file.h"

namespace cohort {
namespace {

using Lines = std::vector<std::string>;
using std::chrono::milliseconds;

// Writes down what it is asked.
class DiaryHook : public SessionRunHook {
 public:
  explicit DiaryHook(std::string name, Lines& lines, SessionRunArgs args = {})
      : name_(std::move(name)), lines_(lines), args_(std::move(args)) {}
  void begin() override { note("begin"); }
  void after_create_session(Session&, Coordinator&) override { note("created"); }
  SessionRunArgs before_run(SessionRunContext&) override {
    note("before");
    return args_;
  }
  void after_run(SessionRunContext&, const SessionRunValues& values) override {
    note("after");
    last = values;
  }
  void end(Session&) override { note("end"); }

  SessionRunValues last;

 private:
  void note(const std::string& what) { lines_.push_back(name_ + " " + what); }
  std::string name_;
  Lines& lines_;
  SessionRunArgs args_;
};

// Makes sessions in this process; throws what it is told first.
class FlakyCreator : public ChiefSessionCreator {
 public:
  std::unique_ptr<Session> create_session() override {
    ++created;
    if (!failures.empty()) {
      const Status failure = failures.back();
      failures.pop_back();
      throw Error(failure);
    }
    return ChiefSessionCreator::create_session();
  }
  int created = 0;
  std::vector<Status> failures;
};

// Throws from after_run, as a run that fails does, as often as there are failures.
class FailingHook : public SessionRunHook {
 public:
  explicit FailingHook(std::vector<Status> failures) : failures_(std::move(failures)) {}
  SessionRunArgs before_run(SessionRunContext&) override {
    if (failures_.empty()) return {};
    const Status failure = failures_.back();
    failures_.pop_back();
    throw Error(failure);
  }

 private:
  std::vector<Status> failures_;
};

Status lost(Code code = Code::Unavailable) { return {.code = code, .message = "a task is gone"}; }

const RecoveryOptions kQuick{
    .max_attempts = 3, .first_wait = milliseconds(1), .longest_wait = milliseconds(2)};

class MonitoredSessions : public ::testing::Test {
 protected:
  MonitoredSessions() : building_(graph_.as_default()) {
    x_ = placeholder(kFloat32, {}, "x");
    double_ = x_ * 2.f;
    three_ = constant(Tensor(3.f), "three");
  }

  Graph graph_;
  Graph::Scope building_;
  Tensor x_, double_, three_;
  Lines lines_;
};

TEST_F(MonitoredSessions, CallHooksInOrder) {
  const auto a = std::make_shared<DiaryHook>("a", lines_);
  const auto b = std::make_shared<DiaryHook>("b", lines_);
  {
    MonitoredSession session({.hooks = {a, b}});
    EXPECT_EQ(session.run(double_, {{x_, Tensor(2.f)}}).to<float>(), 4.f);
    session.close();
  }
  EXPECT_EQ(lines_, (Lines{"a begin", "b begin", "a created", "b created", "a before", "b before",
                           "a after", "b after", "a end", "b end"}));
}

TEST_F(MonitoredSessions, FinaliseTheGraphAfterBegin) {
  class Adder : public SessionRunHook {
   public:
    void begin() override { constant(Tensor(1.f), "added"); }
  };
  MonitoredSession session({.hooks = {std::make_shared<Adder>()}});
  EXPECT_EQ(session.run(graph_.tensor("added")).to<float>(), 1.f);
  EXPECT_ERROR(Code::FailedPrecondition, "finalized", constant(Tensor(1.f)));
}

TEST_F(MonitoredSessions, InitialiseVariablesLocalOnesToo) {
  const Variable v(2.f, {.name = "v"});
  const Variable local = local_variable([&] { return v + 1.f; }, {.name = "local"});
  const Tensor reads[] = {v.read_value(), local.read_value()};
  MonitoredSession session;
  const std::vector<Tensor> values = session.run({reads[0], reads[1]});
  EXPECT_EQ(values[0].to<float>(), 2.f);
  EXPECT_EQ(values[1].to<float>(), 3.f);
}

TEST_F(MonitoredSessions, GiveEachHookItsOwnResults) {
  const auto a =
      std::make_shared<DiaryHook>("a", lines_, SessionRunArgs{.fetches = {double_, three_}});
  const auto b = std::make_shared<DiaryHook>("b", lines_, SessionRunArgs{.fetches = {x_}});
  MonitoredSession session({.hooks = {a, b}});
  const auto named = session.run(std::map<std::string, Tensor>{{"t", three_}}, {{x_, Tensor(5.f)}});
  EXPECT_EQ(named.at("t").to<float>(), 3.f);
  ASSERT_EQ(a->last.results.size(), 2u);
  EXPECT_EQ(a->last.results[0].to<float>(), 10.f);
  EXPECT_EQ(a->last.results[1].to<float>(), 3.f);
  ASSERT_EQ(b->last.results.size(), 1u);
  EXPECT_EQ(b->last.results[0].to<float>(), 5.f);
}

TEST_F(MonitoredSessions, FeedWhatHooksFeed) {
  const auto feeder = std::make_shared<FeedFnHook>([this] { return Feeds{{x_, Tensor(4.f)}}; });
  MonitoredSession session({.hooks = {feeder}});
  EXPECT_EQ(session.run(double_).to<float>(), 8.f);
  const Feeds own{{x_, Tensor(1.f)}};
  EXPECT_ERROR(Code::InvalidArgument, "is fed by a hook", session.run(double_, own));
  EXPECT_EQ(own.size(), 1u);
}

TEST_F(MonitoredSessions, RefuseTwoHooksThatFeedTheSame) {
  const auto feed = [this] { return Feeds{{x_, Tensor(4.f)}}; };
  MonitoredSession session(
      {.hooks = {std::make_shared<FeedFnHook>(feed), std::make_shared<FeedFnHook>(feed)}});
  EXPECT_ERROR(Code::InvalidArgument, "x", session.run(double_));
}

TEST_F(MonitoredSessions, MergeOptions) {
  const auto slow = std::make_shared<DiaryHook>(
      "a", lines_, SessionRunArgs{.options = {.timeout = milliseconds(70'000)}});
  const auto tracer =
      std::make_shared<DiaryHook>("b", lines_, SessionRunArgs{.options = {.trace = true}});
  MonitoredSession session({.hooks = {slow, tracer}});
  RunMetadata metadata;
  session.run(double_, {{x_, Tensor(1.f)}}, {.timeout = milliseconds(60'000)}, &metadata);
  EXPECT_EQ(slow->last.options.timeout, milliseconds(70'000));
  EXPECT_TRUE(slow->last.options.trace);
  EXPECT_FALSE(metadata.nodes.empty());
  EXPECT_EQ(tracer->last.metadata.nodes.size(), metadata.nodes.size());
}

TEST_F(MonitoredSessions, StopWhenAHookAsks) {
  class Stopper : public SessionRunHook {
   public:
    void after_run(SessionRunContext& context, const SessionRunValues&) override {
      EXPECT_EQ(context.original_fetches().size(), 1u);
      context.request_stop();
    }
  };
  MonitoredSession session({.hooks = {std::make_shared<Stopper>()}});
  EXPECT_FALSE(session.should_stop());
  session.run(three_);
  EXPECT_TRUE(session.should_stop());
  EXPECT_ERROR(Code::FailedPrecondition, "asked to stop", session.run(three_));
}

TEST_F(MonitoredSessions, AreClosedOnce) {
  MonitoredSession session;
  session.close();
  EXPECT_TRUE(session.should_stop());
  EXPECT_ERROR(Code::FailedPrecondition, "is closed", session.close());
  EXPECT_ERROR(Code::FailedPrecondition, "is closed", session.run(three_));
  EXPECT_ERROR(Code::FailedPrecondition, "is closed", session.raw_session());
}

TEST_F(MonitoredSessions, EndCleanlyAtTheEndOfTheInput) {
  for (const bool by_program : {false, true}) {
    Graph graph;
    const auto building = graph.as_default();
    constant(Tensor(1.f));
    lines_.clear();
    MonitoredSession session({.hooks = {std::make_shared<DiaryHook>("a", lines_)}});
    session.manage([&] {
      if (by_program) throw StopIteration();
      throw Error(Code::OutOfRange, "no more");
    });
    EXPECT_EQ(lines_.back(), "a end");
    EXPECT_TRUE(session.should_stop());
  }
}

TEST_F(MonitoredSessions, PassOtherErrorsOnWithoutEnd) {
  MonitoredSession session({.hooks = {std::make_shared<DiaryHook>("a", lines_)}});
  EXPECT_ERROR(Code::DataLoss, "broken",
               session.manage([] { throw Error(Code::DataLoss, "broken"); }));
  EXPECT_EQ(lines_.back(), "a created");
  EXPECT_TRUE(session.should_stop());
}

TEST_F(MonitoredSessions, MayBeClosedInsideOfManage) {
  MonitoredSession session;
  session.manage([&] { session.close(); });
}

TEST_F(MonitoredSessions, HearOfHelperThreads) {
  class Helper : public SessionRunHook {
   public:
    void after_create_session(Session&, Coordinator& coordinator) override {
      coordinator.start_thread("helper", [] { throw Error(Code::DataLoss, "helper"); });
      coordinator.wait_for_stop();
    }
  };
  MonitoredSession session({.hooks = {std::make_shared<Helper>()}});
  EXPECT_ERROR(Code::DataLoss, "helper", session.should_stop());
  EXPECT_ERROR(Code::DataLoss, "helper", session.run(three_));
  EXPECT_ERROR(Code::DataLoss, "helper", session.close());
}

TEST_F(MonitoredSessions, StopWhenAQueueIsAtItsEnd) {
  FifoQueue source({.dtypes = {kInt64}, .name = "source"});
  FifoQueue queue({.dtypes = {kInt64}, .name = "numbers"});
  add_queue_runner(QueueRunner(queue, {queue.enqueue({source.dequeue()[0]})}));
  const Tensor fill = source.enqueue({Tensor(int64_t{4})});
  const Tensor close = source.close();
  const Tensor next = queue.dequeue()[0];
  MonitoredSession session({.session_creator = std::make_shared<ChiefSessionCreator>(
                                SessionCreatorOptions{.scaffold = {.init_fn = [=](Session& made) {
                                                        made.run(fill);
                                                        made.run(close);
                                                      }}})});
  std::vector<int64_t> got;
  session.manage([&] {
    while (!session.should_stop()) got.push_back(session.run(next).to<int64_t>());
  });
  EXPECT_EQ(got, std::vector<int64_t>{4});
}

TEST_F(MonitoredSessions, AreMadeAnewWhenATaskIsLost) {
  Variable v(0.f, {.name = "v"});
  const Tensor add = v.assign_add(1.f);
  const auto creator = std::make_shared<FlakyCreator>();
  const auto diary = std::make_shared<DiaryHook>("a", lines_);
  MonitoredSession session({.session_creator = creator,
                            .hooks = {diary, std::make_shared<FailingHook>(
                                                 std::vector<Status>{lost(), lost(Code::Aborted)})},
                            .recovery = kQuick});
  EXPECT_EQ(session.run(add).to<float>(), 1.f);  // a new session in this process begins anew
  EXPECT_EQ(creator->created, 3);
  EXPECT_EQ(lines_, (Lines{"a begin", "a created", "a before", "a created", "a before", "a created",
                           "a before", "a after"}));
}

TEST_F(MonitoredSessions, TryToCreateAgain) {
  const auto creator = std::make_shared<FlakyCreator>();
  creator->failures = {lost(), lost()};
  MonitoredSession session({.session_creator = creator, .recovery = kQuick});
  EXPECT_EQ(creator->created, 3);
  EXPECT_EQ(session.run(three_).to<float>(), 3.f);
}

TEST_F(MonitoredSessions, GiveUpAfterSoManyLosses) {
  const auto creator = std::make_shared<FlakyCreator>();
  creator->failures = std::vector<Status>(10, lost());
  const Status status =
      error_of([&] { MonitoredSession session({.session_creator = creator, .recovery = kQuick}); });
  EXPECT_EQ(status.code, Code::Unavailable);
  EXPECT_NE(status.message.find("creating a session failed 4 times in a row"), std::string::npos);
  EXPECT_EQ(status.root().message, "a task is gone");
  EXPECT_EQ(creator->created, 4);
}

TEST_F(MonitoredSessions, DoNotRetryOtherErrors) {
  const auto creator = std::make_shared<FlakyCreator>();
  creator->failures = {lost(Code::InvalidArgument)};
  EXPECT_ERROR(Code::InvalidArgument, "gone",
               MonitoredSession({.session_creator = creator, .recovery = kQuick}));
  EXPECT_EQ(creator->created, 1);
}

TEST_F(MonitoredSessions, RecoverFromALossThatAHelperThreadReports) {
  class Helper : public SessionRunHook {
   public:
    void after_create_session(Session&, Coordinator& coordinator) override {
      if (++sessions > 1) return;
      coordinator.start_thread("helper", [] { throw Error(lost()); });
      coordinator.wait_for_stop();
    }
    int sessions = 0;
  };
  const auto helper = std::make_shared<Helper>();
  MonitoredSession session({.hooks = {helper}, .recovery = kQuick});
  EXPECT_FALSE(session.should_stop());
  EXPECT_EQ(helper->sessions, 2);
}

TEST_F(MonitoredSessions, SingularOnesDoNotRecover) {
  SingularMonitoredSession session(
      {.hooks = {std::make_shared<FailingHook>(std::vector<Status>{lost()})}});
  EXPECT_ERROR(Code::Unavailable, "gone", session.run(three_));
}

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
             SessionCreatorOptions{.scaffold = scaffold, .checkpoint_dir = "folder"}),
         .hooks = {std::make_shared<StopAfterTwo>()}});
    int64_t now = 0;
    session.manage([&] {
      while (!session.should_stop()) now = session.run(train).to<int64_t>();
      saver->save(session.raw_session(), "folder/model", now);
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
  MonitoredTrainingSession session({.checkpoint_dir = "folder",
                                    .scaffold = {.saver = saver},
                                    .chief_only_hooks = {chief_only},
                                    .save_checkpoint = {.steps = 2}});
  session.manage([&] {
    for (int i = 0; i < 3; ++i) session.run(train);
  });
  EXPECT_EQ(saver->paths(),
            (Lines{"folder/model.ckpt-0", "folder/model.ckpt-2", "folder/model.ckpt-3"}));
  EXPECT_EQ(lines_.front(), "chief begin");
}

TEST_F(MonitoredSessions, WriteNoCheckpointsAndSummariesWhenTold) {
  Variable step = global_step();
  const Tensor train = step.assign_add(int64_t{1});
  const auto saver = std::make_shared<MemorySaver>();
  const TemporaryFolder folder;
  MonitoredTrainingSession session(
      {.checkpoint_dir = folder.path(),
       .scaffold = {.saver = saver},
       .save_checkpoint = {},
       .summary_writer = std::make_shared<SummaryWriter>(folder.path()),
       .summaries = {{"three", three_}},
       .save_summaries = {}});
  session.manage([&] { session.run(train); });
  EXPECT_TRUE(saver->paths().empty());
}

TEST_F(MonitoredSessions, RefuseHooksThatAreNone) {
  EXPECT_ERROR(Code::InvalidArgument, "one of the 1 hooks is null",
               MonitoredSession({.hooks = {nullptr}}));
}

TEST_F(MonitoredSessions, GoOnFromTheLastCheckpoint) {
  const TemporaryFolder folder;
  const auto count_to = [&](int64_t last) {
    Graph graph;
    const auto building = graph.as_default();
    Variable step = global_step();
    const Tensor train = step.assign_add(int64_t{1});
    const Tensor count = step.read_value();
    int64_t first = -1;
    MonitoredTrainingSession session(
        {.checkpoint_dir = folder.path(),
         .hooks = {std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = last})}});
    session.manage([&] {
      first = session.run(count).to<int64_t>();
      while (!session.should_stop()) session.run(train);
    });
    return first;
  };
  EXPECT_EQ(count_to(3), 0);
  EXPECT_EQ(count_to(5), 3);
  EXPECT_EQ(*latest_checkpoint(folder.path()), folder.path() + "/model.ckpt-5");
}

TEST_F(MonitoredSessions, WaitAsWorkers) {
  get_variable("v", {.shape = {}});
  EXPECT_ERROR(Code::DeadlineExceeded, "not initialised: v",
               MonitoredTrainingSession({.is_chief = false, .max_wait = milliseconds(5)}));
}

TEST_F(MonitoredSessions, HaveTheDefaultsOfTheField) {
  const MonitoredTrainingSessionOptions training;
  EXPECT_EQ(training.save_checkpoint.secs, 600);
  EXPECT_EQ(training.save_summaries.steps, 100);
  EXPECT_EQ(training.log_step_count_steps, 100);
  EXPECT_EQ(training.stop_grace_period, std::chrono::seconds(120));
  EXPECT_EQ(training.max_wait, std::chrono::hours(2));
  EXPECT_EQ(SessionCreatorOptions().max_wait, std::chrono::minutes(30));
  EXPECT_EQ(SessionManagerOptions().recovery_wait, std::chrono::seconds(30));
}

}  // namespace
}  // namespace cohort
