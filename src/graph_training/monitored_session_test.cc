#include "cohort/monitored_session.h"

#include "support/monitored_sessions.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

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

struct OwnException {};  // not even a std::exception

TEST_F(MonitoredSessions, KeepTheTypeOfTheProgramsExceptions) {
  EXPECT_THROW(MonitoredSession().manage([] { throw OwnException(); }), OwnException);
}

TEST_F(MonitoredSessions, KeepTheTypeOfExceptionsOfHooks) {
  class Throws : public SessionRunHook {
   public:
    void after_run(SessionRunContext&, const SessionRunValues&) override { throw OwnException(); }
  };
  MonitoredSession session({.hooks = {std::make_shared<Throws>()}});
  EXPECT_THROW(session.manage([&] { session.run(three_); }), OwnException);
}

TEST_F(MonitoredSessions, KeepTheTypeOfExceptionsOfThreads) {
  class Starts : public SessionRunHook {
   public:
    void after_create_session(Session&, Coordinator& coordinator) override {
      const auto thread = coordinator.start_thread("throws", [] { throw OwnException(); });
      thread->join_for(std::chrono::seconds(10));
    }
  };
  MonitoredSession session({.hooks = {std::make_shared<Starts>()}});
  EXPECT_THROW(session.run(three_), OwnException);
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
  EXPECT_ERROR(Code::InvalidArgument, "is fed twice: by a hook", session.run(double_, own));
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

TEST_F(MonitoredSessions, DoNotTakeABadIndexForTheEndOfTheInput) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor index = placeholder(kInt64, {1});
  const Tensor row = gather(constant(Tensor({1.f, 2.f})), index);
  MonitoredSession session;
  EXPECT_ERROR(Code::InvalidArgument, "index 5", session.manage([&] {
    session.run(row, {{index, Tensor({int64_t{5}})}});
  }));
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
  FifoQueue source({.components = {{kInt64}}, .name = "source"});
  FifoQueue queue({.components = {{kInt64}}, .name = "numbers"});
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

TEST_F(MonitoredSessions, RefuseHooksThatAreNone) {
  EXPECT_ERROR(Code::InvalidArgument, "one of the 1 hooks is null",
               MonitoredSession({.hooks = {nullptr}}));
}

}  // namespace
}  // namespace cohort
