#include "graph_training/session_manager.h"

#include <gtest/gtest.h>

#include <thread>

#include "cohort/cohort.h"
#include "support/connection_tries.h"
#include "support/eventually.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/log_file.h"
#include "support/memory_saver.h"

namespace cohort {
namespace {

using internal::RecoveredSession;
using internal::SessionManager;
using std::chrono::milliseconds;

class SessionManagers : public ::testing::Test {
 protected:
  SessionManagers() : building_(graph_.as_default()) {
    v_ = get_variable("v", {.shape = {}, .initializer = nn::ones()}).read_value();
    ready_ = report_uninitialized_variables(global_variables());
    init_ = global_variables_initializer();
  }

  // Saves 5 as the value of v under the path "there-3".
  std::shared_ptr<MemorySaver> saver_with_five() {
    auto saver = std::make_shared<MemorySaver>();
    Session session;
    session.run(global_variables()[0].assign(5.f));
    saver->save(session, "there", 3);
    return saver;
  }

  // Counts its runs in a variable that was not initialised.
  static Tensor count_up(Variable& runs) {
    return runs.assign(cond(
        is_variable_initialized(runs), [&] { return runs.read_value() + 1; },
        [] { return Tensor(1.f); }));
  }

  static float value(Session& session, const Tensor& tensor) {
    return session.run(tensor).to<float>();
  }

  Graph graph_;
  Graph::Scope building_;
  Tensor v_, ready_, init_;
};

TEST_F(SessionManagers, InitialiseWithAnOp) {
  const SessionManager manager({.ready_op = ready_});
  const auto session = manager.prepare_session("", {.init_op = init_});
  EXPECT_EQ(value(*session, v_), 1.f);
}

TEST_F(SessionManagers, WarnOfVariablesThatNobodyInitialises) {
  // Sleeps of up to 1 s leave time for at most eleven looks before warnings begin, and for fewer on
  // a busy machine. The model is ready at the 13th look, so an earlier look warns.
  Variable looks(0.f, {.name = "looks"});
  Variable v = global_variables()[0];
  const Tensor looked = count_up(looks);
  const Tensor maybe = cond(
      looked >= 13.f, [&] { return v.assign(7.f); }, [] { return Tensor(0.f); });
  const SessionManager manager(
      {.ready_op = ready_, .local_init_op = maybe, .recovery_wait = milliseconds(1000)});
  testing::internal::CaptureStderr();
  manager.wait_for_session("");
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      log.find("waiting for the model of this process to be ready: not initialised: v (without a"),
      std::string::npos)
      << log;
}

TEST_F(SessionManagers, WarnOfVariablesOfTasksThatNobodyInitialises) {
  Variable far;
  {
    const DeviceScope there("/job:ps/task:0");
    far = Variable(1.f, {.name = "far"});
  }
  const Tensor ready = report_uninitialized_variables(global_variables());
  const Tensor init = global_variables_initializer();
  test::LocalCluster cluster(1, 1);
  const test::LogFile log;
  const std::jthread chief([&] {
    EXPECT_TRUE(test::eventually([&] {
      return log.contains("not initialised: v (without a device), far (on /job:ps/task:0)");
    })) << log.text();
    Session(graph_, cluster.target()).run(init);
  });
  SessionManager({.ready_op = ready, .recovery_wait = milliseconds(100)})
      .wait_for_session(cluster.target());
}

TEST_F(SessionManagers, InitialiseWithFeedsAndAFunction) {
  const Tensor x = placeholder(kFloat32, {});
  const Tensor set = global_variables()[0].assign(x);
  const Tensor add = global_variables()[0].assign_add(2.f);
  const SessionManager manager({.ready_op = ready_});
  const auto session = manager.prepare_session(
      "", {.init_op = set, .init_feeds = {{x, Tensor(4.f)}}, .init_fn = [&](Session& made) {
             made.run(add);
           }});
  EXPECT_EQ(value(*session, v_), 6.f);
}

TEST_F(SessionManagers, NeedSomethingToInitialiseWith) {
  EXPECT_ERROR(Code::FailedPrecondition, "no init op, init function or local init op was given",
               SessionManager({.ready_op = ready_}).prepare_session("", {}));
}

TEST_F(SessionManagers, QuoteTheCheckThatFails) {
  const Tensor nothing = group({});
  EXPECT_ERROR(Code::FailedPrecondition,
               "did not make the model ready (init op: given, init "
               "function: none): not initialised: v",
               SessionManager({.ready_op = ready_}).prepare_session("", {.init_op = nothing}));
  EXPECT_ERROR(Code::FailedPrecondition,
               "ready for the local init op (init op: given, init function: "
               "none): not initialised: v",
               SessionManager({.ready_for_local_init_op = ready_, .local_init_op = nothing})
                   .prepare_session("", {.init_op = nothing}));
}

TEST_F(SessionManagers, RunTheLocalInitOpAfterTheInitOp) {
  const Variable local = local_variable([&] { return v_ + 1; }, {.name = "local"});
  const SessionManager manager({.ready_op = report_uninitialized_variables(),
                                .ready_for_local_init_op = ready_,
                                .local_init_op = local_variables_initializer()});
  const Tensor read = local.read_value();
  const auto session = manager.prepare_session("", {.init_op = init_});
  EXPECT_EQ(value(*session, read), 2.f);
}

TEST_F(SessionManagers, RefuseALocalCheckWithoutALocalInitOp) {
  EXPECT_ERROR(Code::InvalidArgument, "without a .local_init_op",
               SessionManager({.ready_for_local_init_op = ready_}));
}

TEST_F(SessionManagers, RestoreInsteadOfInitialising) {
  const auto saver = saver_with_five();
  const SessionManager manager({.ready_op = ready_});
  const auto latest = manager.prepare_session("", {.init_op = init_},
                                              {.saver = saver, .checkpoint_dir = "directory"});
  EXPECT_EQ(value(*latest, v_), 5.f);
  const auto named = manager.prepare_session("", {.init_op = init_},
                                             {.saver = saver, .checkpoint_path = "there-3"});
  EXPECT_EQ(value(*named, v_), 5.f);
  const auto without_directory = manager.prepare_session("", {.init_op = init_}, {.saver = saver});
  EXPECT_EQ(value(*without_directory, v_), 1.f);
}

TEST_F(SessionManagers, RefuseADirectoryAndAPath) {
  EXPECT_ERROR(Code::InvalidArgument, "not both ('directory' and 'path')",
               SessionManager({.ready_op = ready_})
                   .prepare_session("", {.init_op = init_},
                                    {.saver = saver_with_five(),
                                     .checkpoint_dir = "directory",
                                     .checkpoint_path = "path"}));
}

TEST_F(SessionManagers, InitialiseWhenNoCheckpointComesInTime) {
  const auto saver = std::make_shared<MemorySaver>();
  const SessionManager manager({.ready_op = ready_, .recovery_wait = milliseconds(1)});
  const auto session = manager.prepare_session("", {.init_op = init_},
                                               {.saver = saver,
                                                .checkpoint_dir = "directory",
                                                .wait_for_checkpoint = true,
                                                .max_wait = milliseconds(5)});
  EXPECT_EQ(value(*session, v_), 1.f);
}

// A saver that has a checkpoint only when it is asked for the third time.
class LateSaver : public SessionSaver {
 public:
  explicit LateSaver(std::shared_ptr<SessionSaver> saver) : saver_(std::move(saver)) {}
  std::string save(Session& session, const std::string& prefix, int64_t step) override {
    return saver_->save(session, prefix, step);
  }
  void restore(Session& session, const std::string& path) override {
    saver_->restore(session, path);
  }
  std::optional<std::string> latest(const std::string& directory) override {
    return ++asked_ < 3 ? std::nullopt : saver_->latest(directory);
  }

 private:
  std::shared_ptr<SessionSaver> saver_;
  int asked_ = 0;
};

TEST_F(SessionManagers, WaitForACheckpoint) {
  const auto saver = std::make_shared<LateSaver>(saver_with_five());
  const SessionManager manager({.ready_op = ready_, .recovery_wait = milliseconds(1)});
  const auto session = manager.prepare_session(
      "", {}, {.saver = saver, .checkpoint_dir = "directory", .wait_for_checkpoint = true});
  EXPECT_EQ(value(*session, v_), 5.f);
}

TEST_F(SessionManagers, SayWhetherTheyCouldRecover) {
  const SessionManager manager({.ready_op = ready_});
  const RecoveredSession none = manager.recover_session("");
  EXPECT_FALSE(none.initialized);
  const RecoveredSession restored =
      manager.recover_session("", {.saver = saver_with_five(), .checkpoint_dir = "directory"});
  EXPECT_TRUE(restored.initialized);
  EXPECT_EQ(value(*restored.session, v_), 5.f);
  const SessionManager never({.ready_op = constant(Tensor({"a reason"}))});
  EXPECT_FALSE(
      never.recover_session("", {.saver = saver_with_five(), .checkpoint_dir = "directory"})
          .initialized);
}

TEST_F(SessionManagers, TryTheLocalInitOpOnceInARecovery) {
  Variable runs(0.f, {.name = "runs"});
  const Tensor local_init = count_up(runs);
  const Tensor read = runs.read_value();
  const SessionManager manager({.ready_op = ready_, .local_init_op = local_init});
  const RecoveredSession recovered = manager.recover_session("");
  EXPECT_EQ(value(*recovered.session, read), 1.f);
}

TEST_F(SessionManagers, WaitUntilTheModelIsReady) {
  // The variable gets its value at the third look.
  Variable looks(0.f, {.name = "looks"});
  Variable late(0.f, {.name = "late"});
  const Tensor looked = count_up(looks);
  const Tensor maybe = cond(
      looked >= 3.f, [&] { return late.assign(7.f); }, [] { return Tensor(0.f); });
  const Tensor read = looks.read_value();
  const SessionManager manager({.ready_op = report_uninitialized_variables({late}),
                                .local_init_op = maybe,
                                .recovery_wait = milliseconds(1)});
  const auto session = manager.wait_for_session("");
  EXPECT_EQ(value(*session, read), 3.f);
}

TEST_F(SessionManagers, GiveUpWaitingInTime) {
  const SessionManager manager({.ready_op = ready_, .recovery_wait = milliseconds(2)});
  EXPECT_ERROR(Code::DeadlineExceeded, "was not ready within 10 ms: not initialised: v",
               manager.wait_for_session("", {.max_wait = milliseconds(10)}));
  const SessionManager slow({.ready_op = ready_, .recovery_wait = milliseconds(60'000)});
  EXPECT_ERROR(Code::DeadlineExceeded, "within 1 ms",
               slow.wait_for_session("", {.max_wait = milliseconds(1)}));
  EXPECT_ERROR(Code::InvalidArgument, "max_wait must not be negative, got -1 ms",
               slow.wait_for_session("", {.max_wait = milliseconds(-1)}));
}

// Neither a server that does not listen nor a check that does not end takes longer.
TEST_F(SessionManagers, GiveUpInTimeWhateverTheyWaitFor) {
  const Status late = error_of([&] {
    SessionManager({.ready_op = ready_})
        .wait_for_session("localhost:1", {.max_wait = milliseconds(2'000)});
  });
  EXPECT_EQ(late.code, Code::DeadlineExceeded) << late;
  EXPECT_NE(late.message.find("no process listens at localhost:1"), std::string::npos) << late;
  test::expect_tried_for(milliseconds(2'000), late);
  const Tensor never = FifoQueue({.components = {{kString, {-1}}}}).dequeue()[0];
  EXPECT_ERROR(
      Code::DeadlineExceeded, "was not ready within 100 ms",
      SessionManager({.ready_op = never}).wait_for_session("", {.max_wait = milliseconds(100)}));
}

TEST_F(SessionManagers, PassOtherErrorsOnWhileWaiting) {
  const Tensor broken =
      gather(constant(Tensor({"a"})), cast(check_numerics(log(Tensor({-1.f})), "no"), kInt64));
  EXPECT_ERROR(Code::InvalidArgument, "no",
               SessionManager({.ready_op = broken}).wait_for_session(""));
  EXPECT_ERROR(Code::NotFound, "nothing serves target 'local'; use \"grpc://host:port\"",
               SessionManager({.ready_op = ready_}).wait_for_session("local"));
}

}  // namespace
}  // namespace cohort
