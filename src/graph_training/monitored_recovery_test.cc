// Sessions that are replaced when a task was lost.

#include "cohort/graph_training.h"
#include "support/monitored_sessions.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

// Makes sessions in this process, after it has thrown the given errors.
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

// Throws from before_run, as a run that fails does, as often as there are failures.
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

TEST_F(MonitoredSessions, AreMadeAnewWhenATaskIsLost) {
  Variable v(0.f, {.name = "v"});
  const Tensor add = v.assign_add(1.f);
  const auto creator = std::make_shared<FlakyCreator>();
  const auto diary = std::make_shared<DiaryHook>("a", lines_);
  MonitoredSession session({.session_creator = creator,
                            .hooks = {diary, std::make_shared<FailingHook>(
                                                 std::vector<Status>{lost(), lost(Code::Aborted)})},
                            .recovery = kQuick});
  EXPECT_EQ(session.run(add).to<float>(), 1.f);  // a new session in this process has new variables
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

}  // namespace
}  // namespace cohort
