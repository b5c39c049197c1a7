#include <gtest/gtest.h>

#include <latch>

#include "cohort/cohort.h"
#include "cohort/replica_device_setter.h"
#include "cohort/supervisor.h"
#include "support/expect_error.h"
#include "support/memory_saver.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

class Supervisors : public ::testing::Test {
 protected:
  Supervisors() : building_(graph_.as_default()) {}

  Graph graph_;
  Graph::Scope building_;
};

TEST_F(Supervisors, RefuseVariablesWithoutADeviceUnlessTheyAreTheChief) {
  {
    const auto on = device("/job:ps/task:0");
    get_variable("placed", {.shape = {2}});
  }
  Supervisor all_placed({.is_chief = false});
  get_variable("homeless", {.shape = {2}});
  EXPECT_ERROR(Code::InvalidArgument,
               "When using replicas, all Variables must have their device set: 'homeless'",
               Supervisor({.is_chief = false}));
  Supervisor chief({.is_chief = true});
}

TEST_F(Supervisors, SeeEveryKindOfVariable) {
  local_variable([] { return Tensor(1.f); }, {.name = "local"});
  EXPECT_ERROR(Code::InvalidArgument, "device set: 'local'", Supervisor({.is_chief = false}));
  Graph other;
  {
    const auto building = other.as_default();
    const auto on = device(replica_device_setter({.ps_tasks = 1}));
    optim::Adam adam;
    adam.minimize(sum(square(Tensor(get_variable("w", {.shape = {2}})))), {}, global_step());
    local_variable([] { return Tensor(1.f); }, {.name = "local"});
  }
  Supervisor slots_are_with_their_variable({.graph = other, .is_chief = false});
}

TEST_F(Supervisors, AreMadeOutsideOfDeviceScopes) {
  const auto on = device("/job:ps/task:0");
  EXPECT_ERROR(Code::FailedPrecondition, "move it out of the scope", Supervisor());
}

TEST_F(Supervisors, HaveIntervalsThatAreNotNegative) {
  constexpr milliseconds kBad(-1);
  EXPECT_ERROR(
      Code::InvalidArgument,
      "save_model_interval must not be negative, got -1 ms; leave it empty for no such thread",
      Supervisor({.save_model_interval = kBad}));
  EXPECT_ERROR(Code::InvalidArgument, "save_summaries_interval must not be negative",
               Supervisor({.save_summaries_interval = kBad}));
  constexpr milliseconds kNone(0);
  EXPECT_NO_THROW(Supervisor({.save_model_interval = kNone, .save_summaries_interval = kNone}));
}

TEST_F(Supervisors, KeepTheTypeOfTheProgramsExceptions) {
  struct OwnException {};
  Supervisor supervisor;
  EXPECT_THROW(supervisor.managed_session("", [](Session&) { throw OwnException(); }),
               OwnException);
}

TEST_F(Supervisors, InitialiseAsChiefAndEndTheSession) {
  Variable v(3.f, {.name = "v"});
  const Tensor read = v.read_value();
  Supervisor supervisor;
  float seen = 0;
  Session* gone = nullptr;
  supervisor.managed_session("", [&](Session& session) {
    seen = session.run(read).to<float>();
    gone = &session;
  });
  EXPECT_EQ(seen, 3.f);
  EXPECT_TRUE(supervisor.should_stop());
}

TEST_F(Supervisors, WaitAsOthers) {
  std::optional<DeviceScope> on(std::string_view("/cpu:0"));
  const Variable v = get_variable("v", {.shape = {}});
  Variable looks(0.f, {.name = "looks"});
  Variable late(0.f, {.name = "late"});
  on.reset();
  const Tensor looked = looks.assign(cond(
      is_variable_initialized(looks), [&] { return looks.read_value() + 1; },
      [] { return Tensor(1.f); }));
  // The model becomes ready at the third look.
  const Tensor prepare = cond(
      looked >= 3.f, [&] { return late.assign(7.f); }, [] { return Tensor(0.f); });
  const Tensor read = looks.read_value();
  const Tensor missing = report_uninitialized_variables({v});
  Supervisor other({.is_chief = false,
                    .local_init_op = prepare,
                    .ready_op = report_uninitialized_variables({late}),
                    .recovery_wait = milliseconds(1)});
  const auto session = other.prepare_or_wait_for_session();
  EXPECT_EQ(session->run(read).to<float>(), 3.f);
  EXPECT_EQ(session->run(missing).to_vector<std::string>(), std::vector<std::string>{"v"});
}

TEST_F(Supervisors, GiveUpAsOthersAfterTheLongestWait) {
  {
    const auto on = device("/cpu:0");
    get_variable("v", {.shape = {}});
  }
  Supervisor other({.is_chief = false});
  EXPECT_ERROR(Code::DeadlineExceeded, "was not ready within 1 ms",
               other.prepare_or_wait_for_session("", {.max_wait = milliseconds(1)}));
  EXPECT_ERROR(Code::DeadlineExceeded, "was not ready within 1 ms",
               other.managed_session("", [](Session&) { FAIL() << "there is no session"; },
                                     {.max_wait = milliseconds(1)}));
}

TEST_F(Supervisors, LetOnlyTheChiefServeAndWrite) {
  const auto op = constant(Tensor(1.f));
  Supervisor other({.is_chief = false});
  Session session;
  EXPECT_ERROR(Code::FailedPrecondition, "only the chief may start the standard services",
               other.start_standard_services(session));
  EXPECT_ERROR(Code::FailedPrecondition, "only the chief may write summaries",
               other.summary_computed(session, {}));
  Supervisor chief;
  EXPECT_ERROR(Code::FailedPrecondition, "needs a .summary_writer",
               chief.summary_computed(session, {}));
}

TEST_F(Supervisors, EndSilentlyAtTheEndOfTheInput) {
  constant(Tensor(1.f));
  Supervisor supervisor;
  supervisor.managed_session("", [](Session&) { throw Error(Code::OutOfRange, "no more"); });
}

TEST_F(Supervisors, ThrowOtherErrorsOnceTheThreadsHaveEnded) {
  constant(Tensor(1.f));
  Supervisor supervisor;
  bool ended = false;
  EXPECT_ERROR(Code::Unavailable, "lost", supervisor.managed_session("", [&](Session&) {
    supervisor.coordinator().start_thread("helper", [&] {
      supervisor.coordinator().wait_for_stop();
      ended = true;
    });
    throw Error(Code::Unavailable, "lost");
  }));
  EXPECT_TRUE(ended);
}

TEST_F(Supervisors, ThrowWhatAThreadReported) {
  constant(Tensor(1.f));
  Supervisor supervisor;
  EXPECT_ERROR(Code::DataLoss, "helper", supervisor.managed_session("", [&](Session&) {
    supervisor.loop(milliseconds(1), [] { throw Error(Code::DataLoss, "helper"); });
    EXPECT_TRUE(supervisor.coordinator().wait_for_stop(milliseconds(60'000)));
  }));
}

class LatchedNotes : public ScalarSink {
 public:
  void add_scalar(const std::string& tag, double value, int64_t step) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(tag + " " + std::to_string(value) + " " + std::to_string(step));
    if (!told_) first.count_down();
    told_ = true;
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::latch first{1};

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
  bool told_ = false;
};

TEST_F(Supervisors, SaveAndSummariseAsChief) {
  Variable v(3.f, {.name = "v"});
  Variable step = global_step();
  const Tensor change = v.assign_add(1.f);
  const Tensor count = step.assign_add(int64_t{1});
  const auto saver = std::make_shared<MemorySaver>();
  const auto notes = std::make_shared<LatchedNotes>();
  const Tensor read = v.read_value();
  Supervisor supervisor(
      {.logdir = "directory", .saver = saver, .summary_writer = notes, .summaries = {{"v", read}}});
  supervisor.managed_session("", [&](Session& session) {
    notes->first.wait();
    session.run(change);
    session.run(count);
  });
  EXPECT_EQ(notes->lines()[0], "v 3.000000 0");
  EXPECT_EQ(saver->paths().back(), "directory/model.ckpt-1");
  float restored = 0;
  supervisor.managed_session("",
                             [&](Session& session) { restored = session.run(read).to<float>(); });
  EXPECT_EQ(restored, 4.f);
}

TEST_F(Supervisors, RunTheGraphsQueues) {
  FifoQueue queue({.capacity = 2, .components = {{kInt64}}, .name = "numbers"});
  add_queue_runner(QueueRunner(queue, {queue.enqueue({Tensor(int64_t{9})})}));
  const Tensor next = queue.dequeue()[0];
  Supervisor supervisor;
  int64_t got = 0;
  supervisor.managed_session("", [&](Session& session) { got = session.run(next).to<int64_t>(); });
  EXPECT_EQ(got, 9);
}

}  // namespace
}  // namespace cohort
