// What the optimizer asks of its caller.

#include <gtest/gtest.h>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

class SyncReplicasRules : public ::testing::Test {
 protected:
  SyncReplicasRules() : building_(graph_.as_default()) {}
  Graph graph_;
  Graph::Scope building_;
  optim::Sgd sgd_;
};

TEST_F(SyncReplicasRules, NeedAGlobalStepVariablesAndGradients) {
  SyncReplicasOptimizer optimizer(sgd_);
  Variable v(1.f, {.name = "v"});
  EXPECT_ERROR(Code::InvalidArgument, "a global step is required",
               optimizer.apply_gradients({constant(Tensor(1.f))}, {v}));
  const Variable step = global_step();
  EXPECT_ERROR(Code::InvalidArgument, "at least one variable",
               optimizer.apply_gradients({}, {}, step));
  EXPECT_ERROR(Code::InvalidArgument, "2 gradients for 1 variables",
               optimizer.apply_gradients({{}, {}}, {v}, step));
  EXPECT_ERROR(Code::InvalidArgument, "none of the 1 variables has a gradient",
               optimizer.apply_gradients({Gradient()}, {v}, step));
}

TEST_F(SyncReplicasRules, TakeVariablesOfGraphsOnly) {
  SyncReplicasOptimizer optimizer(sgd_);
  std::optional<Variable> v;
  {
    const Graph::Scope outside(nullptr);
    v.emplace(1.f, VariableOptions{.name = "v"});
  }
  EXPECT_ERROR(Code::InvalidArgument, "variable 'v' does not belong to a graph",
               optimizer.apply_gradients({constant(Tensor(1.f))}, {*v}, global_step()));
}

TEST_F(SyncReplicasRules, HaveStepTimeoutsThatAreEmptyOrPositive) {
  EXPECT_ERROR(Code::InvalidArgument,
               "step_timeout must be positive, got 0 ms; leave it empty for no limit",
               SyncReplicasOptimizer(sgd_, {.step_timeout = milliseconds(0)}));
  EXPECT_NO_THROW(SyncReplicasOptimizer(sgd_, {.step_timeout = std::nullopt}));
}

TEST_F(SyncReplicasRules, GiveNothingBeforeGradientsAreApplied) {
  const SyncReplicasOptimizer optimizer(sgd_);
  EXPECT_ERROR(Code::FailedPrecondition, "the hook exists only after",
               optimizer.make_session_run_hook(true));
  EXPECT_ERROR(Code::FailedPrecondition, "the chief's queue runner",
               optimizer.get_chief_queue_runner());
  EXPECT_ERROR(Code::FailedPrecondition, "initial tokens", optimizer.get_init_tokens_op());
}

// Tokens to begin with: at least R - N, 0 where all workers are needed once, any larger number.
TEST(SyncReplicas, BeginWithEnoughTokens) {
  const auto init_tokens = [](int to_aggregate, int total, std::optional<int> num_tokens) {
    Graph graph;
    const auto building = graph.as_default();
    Variable v(1.f, {.name = "v"});
    optim::Sgd sgd;
    SyncReplicasOptimizer optimizer(
        sgd, {.replicas_to_aggregate = to_aggregate, .total_num_replicas = total});
    optimizer.minimize(v * 2.f, {v}, global_step());
    const Tensor give = optimizer.get_init_tokens_op(num_tokens);
    const Tensor count =
        FifoQueue(
            {.components = {{kInt64, {}}}, .name = "tokens", .shared_name = "sync_replicas/tokens"})
            .size();
    const Tensor init = global_variables_initializer();
    Session session;
    session.run(init);
    session.run(give);
    return session.run(count).to<int64_t>();
  };
  EXPECT_EQ(init_tokens(2, 3, std::nullopt), 0);
  EXPECT_EQ(init_tokens(2, 3, 0), 0);
  EXPECT_EQ(init_tokens(2, 2, 0), 0);
  EXPECT_EQ(init_tokens(2, 3, 7), 7);
  EXPECT_EQ(init_tokens(5, 2, -1), 3);
  EXPECT_EQ(init_tokens(5, 2, 3), 3);
  EXPECT_ERROR(Code::InvalidArgument, "it needs 3", init_tokens(5, 2, 2));
  EXPECT_ERROR(Code::InvalidArgument, "-2 initial tokens", init_tokens(2, 2, -2));
}

TEST_F(SyncReplicasRules, HaveSensibleNumbers) {
  EXPECT_ERROR(Code::InvalidArgument, "replicas_to_aggregate 0",
               SyncReplicasOptimizer(sgd_, {.replicas_to_aggregate = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "total_num_replicas 0",
               SyncReplicasOptimizer(sgd_, {.replicas_to_aggregate = 1, .total_num_replicas = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "worker_index 2 is not one of 2 workers",
               SyncReplicasOptimizer(sgd_, {.replicas_to_aggregate = 2, .worker_index = 2}));
}

TEST_F(SyncReplicasRules, ApplyOnce) {
  SyncReplicasOptimizer optimizer(sgd_);
  Variable v(1.f, {.name = "v"});
  optimizer.minimize(v * 2.f, {v}, global_step());
  EXPECT_ERROR(Code::FailedPrecondition, "applied already",
               optimizer.minimize(v * 2.f, {v}, global_step()));
}

TEST_F(SyncReplicasRules, LeaveVariablesWithoutGradientAlone) {
  Variable v(1.f, {.name = "v"});
  Variable other(1.f, {.name = "other"});
  SyncReplicasOptimizer optimizer(sgd_);
  const Tensor train = optimizer.minimize(v * 2.f, {v, other}, global_step());
  const Tensor read = other.read_value();
  MonitoredSession session({.hooks = {optimizer.make_session_run_hook(true)}});
  session.run(train);
  EXPECT_EQ(session.run(read).to<float>(), 1.f);
}

// The hook does everything for a chief that is alone.
TEST_F(SyncReplicasRules, TrainWithTheHook) {
  Variable v(10.f, {.name = "v"});
  Variable average(0.f, {.name = "average", .trainable = false});
  optim::Sgd sgd({.learning_rate = 0.5});
  SyncReplicasOptimizer optimizer(
      sgd, {.replicas_to_aggregate = 1, .after_update = [&] { return average.assign_add(1.f); }});
  const Tensor train = optimizer.minimize(square(v), {v}, global_step());
  const Tensor read = v.read_value();
  const Tensor updates = average.read_value();
  MonitoredTrainingSession session(
      {.hooks = {optimizer.make_session_run_hook(true),
                 std::make_shared<StopAtStepHook>(StopAtStepOptions{.last_step = 3})}});
  float last = 0, counted = 0;
  session.manage([&] {
    while (!session.should_stop()) session.run(train);
    last = session.raw_session().run(read).to<float>();
    counted = session.raw_session().run(updates).to<float>();
  });
  EXPECT_EQ(last, 0.f);  // v - 0.5 * 2 v
  EXPECT_GE(counted, 2.f);
}

TEST_F(SyncReplicasRules, EndAStepThatWaitsTooLong) {
  Variable v(10.f, {.name = "v"});
  SyncReplicasOptimizer optimizer(
      sgd_, {.replicas_to_aggregate = 2, .worker_index = 0, .step_timeout = milliseconds(30)});
  const Tensor train = optimizer.minimize(square(v), {v}, global_step());
  MonitoredSession session({.hooks = {optimizer.make_session_run_hook(true)}});
  EXPECT_ERROR(Code::DeadlineExceeded, "30 ms", session.run(train));
}

}  // namespace
}  // namespace cohort
