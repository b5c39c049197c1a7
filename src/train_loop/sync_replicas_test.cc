#include "cohort/sync_replicas.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kPatience{30'000};

// All workers of a cluster in one graph and one session: what they share by name on a ps they share
// here as well. One variable that starts at 10, learning rate 0.5; each worker is fed its gradient.
class Cluster {
 public:
  Cluster(int to_aggregate, int total, bool numbered = true) : building_(graph_.as_default()) {
    v_.emplace(10.f, VariableOptions{.name = "v"});
    Variable step = cohort::global_step();
    sgd_.emplace(optim::SgdOptions{.learning_rate = 0.5});
    for (int i = 0; i < total; ++i) {
      SyncReplicasOptions options{.replicas_to_aggregate = to_aggregate,
                                  .total_num_replicas = total};
      if (numbered) options.worker_index = i;
      Worker& worker = *workers_.emplace_back(std::make_unique<Worker>(*sgd_, options));
      worker.gradient = placeholder(kFloat32, {});
      worker.train = worker.optimizer.apply_gradients({worker.gradient * 1.f}, {*v_}, step);
      worker.local_step = worker.optimizer.local_step().read_value();
    }
    read_v_ = v_->read_value();
    read_step_ = step.read_value();
    num_tokens_ = FifoQueue({.dtypes = {kInt64},
                             .shapes = {{}},
                             .name = "tokens",
                             .shared_name = "sync_replicas/tokens"})
                      .size();
    num_gradients_ =
        ConditionalAccumulator({.shape = {}, .shared_name = "sync_replicas/v/gradients"})
            .num_accumulated();
    init_ = global_variables_initializer();
    session_.emplace(graph_);
  }

  // As the chief and the other workers do it.
  void start(int num_tokens = -1) {
    const Tensor tokens = chief().get_init_tokens_op(num_tokens);
    session_->run(init_);
    session_->run(chief().chief_init_op());
    for (const auto& worker : workers_) session_->run(worker->optimizer.local_step_init_op());
    session_->run(tokens);
    start_chief();
  }
  void start_chief() { chief().get_chief_queue_runner().create_threads(*session_, coordinator_); }
  void stop() {
    coordinator_.request_stop();
    coordinator_.join({.stop_grace_period = kPatience});
  }

  // One step of a worker; returns its token.
  int64_t train(int worker, float gradient) {
    Worker& the = *workers_.at(static_cast<size_t>(worker));
    return session_->run(the.train, {{the.gradient, Tensor(gradient)}}, {.timeout = kPatience})
        .to<int64_t>();
  }
  std::future<int64_t> train_meanwhile(int worker, float gradient) {
    return std::async(std::launch::async, [=, this] { return train(worker, gradient); });
  }
  void await_step(int64_t wanted) {
    while (step() < wanted) std::this_thread::yield();
  }
  void await_gradients(int64_t wanted) {
    while (gradients() < wanted) std::this_thread::yield();
  }
  void await_tokens(int64_t wanted) {
    while (tokens() != wanted) std::this_thread::yield();
  }

  SyncReplicasOptimizer& chief() { return workers_[0]->optimizer; }
  SyncReplicasOptimizer& worker(int i) { return workers_.at(static_cast<size_t>(i))->optimizer; }
  Session& session() { return *session_; }
  float variable() { return session_->run(read_v_).to<float>(); }
  int64_t step() { return session_->run(read_step_).to<int64_t>(); }
  int64_t tokens() { return session_->run(num_tokens_).to<int64_t>(); }
  int64_t gradients() { return session_->run(num_gradients_).to<int64_t>(); }
  int64_t live() { return session_->run(chief().num_live_workers()).to<int64_t>(); }
  int64_t local_step(int worker) {
    return session_->run(workers_.at(static_cast<size_t>(worker))->local_step).to<int64_t>();
  }

 private:
  struct Worker {
    Worker(optim::Optimizer& inner, const SyncReplicasOptions& options)
        : optimizer(inner, options) {}
    SyncReplicasOptimizer optimizer;
    Tensor gradient, train, local_step;
  };

  Graph graph_;
  Graph::Scope building_;
  std::optional<Variable> v_;
  std::optional<optim::Sgd> sgd_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Tensor read_v_, read_step_, num_tokens_, num_gradients_, init_;
  std::optional<Session> session_;
  Coordinator coordinator_;
};

// R = 2, N = 3, two tokens to begin with, gradients a = 2, b = 4, c = 6: the spec's table.
TEST(SyncReplicas, FollowTheTimelineWithTwoInitialTokens) {
  Cluster cluster(2, 3);
  cluster.start(2);
  EXPECT_EQ(cluster.tokens(), 2);
  EXPECT_EQ(cluster.train(0, 2), 0);  // a
  EXPECT_EQ(cluster.gradients(), 1);
  EXPECT_EQ(cluster.variable(), 10.f);
  EXPECT_EQ(cluster.train(1, 4), 0);  // b completes the step
  cluster.await_step(1);
  cluster.await_tokens(3);
  EXPECT_EQ(cluster.variable(), 8.5f);
  EXPECT_EQ(cluster.gradients(), 0);
  EXPECT_EQ(cluster.train(2, 6), 1);  // c comes too late
  EXPECT_EQ(cluster.gradients(), 0);
  EXPECT_EQ(cluster.local_step(2), 1);
  EXPECT_EQ(cluster.train(0, 2), 1);  // a and b waste one batch each
  EXPECT_EQ(cluster.train(1, 4), 1);
  EXPECT_EQ(cluster.gradients(), 0);
  EXPECT_EQ(cluster.tokens(), 0);
  auto a = cluster.train_meanwhile(0, 2);  // from here any two workers complete a step
  EXPECT_EQ(cluster.train(2, 6), 2);
  EXPECT_EQ(a.get(), 2);
  EXPECT_EQ(cluster.variable(), 6.5f);
  cluster.stop();
}

TEST(SyncReplicas, WasteNoBatchAtTheStart) {
  Cluster cluster(2, 2);
  cluster.start();
  EXPECT_EQ(cluster.tokens(), 0);
  for (int64_t step = 1; step <= 3; ++step) {
    auto a = cluster.train_meanwhile(0, 2);
    EXPECT_EQ(cluster.train(1, 4), step);
    EXPECT_EQ(a.get(), step);
  }
  EXPECT_EQ(cluster.step(), 3);
  EXPECT_EQ(cluster.variable(), 10.f - 3 * 1.5f);
  EXPECT_EQ(cluster.tokens(), 0);
  cluster.stop();
}

TEST(SyncReplicas, DropTheSlowestWithBackupWorkers) {
  Cluster cluster(2, 3);
  cluster.start();
  auto a = cluster.train_meanwhile(0, 2);
  auto b = cluster.train_meanwhile(1, 4);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(b.get(), 1);
  EXPECT_EQ(cluster.train(2, 100), 1);  // dropped, and its token was there
  EXPECT_EQ(cluster.variable(), 8.5f);
  cluster.stop();
}

TEST(SyncReplicas, TakeSeveralBatchesOfAWorkerWhenMoreAreAskedForThanThereAreWorkers) {
  Cluster cluster(4, 2);
  EXPECT_ERROR(Code::InvalidArgument,
               "1 initial tokens are too few to finish the first step; it "
               "needs 2",
               cluster.chief().get_init_tokens_op(1));
  cluster.start();
  EXPECT_EQ(cluster.tokens(), 2);
  EXPECT_EQ(cluster.train(0, 1), 0);
  EXPECT_EQ(cluster.train(1, 2), 0);
  auto a = cluster.train_meanwhile(0, 3);
  EXPECT_EQ(cluster.train(1, 6), 1);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(cluster.variable(), 8.5f);  // the mean of 1, 2, 3 and 6 is 3
  EXPECT_EQ(cluster.tokens(), 2);
  cluster.stop();
}

TEST(SyncReplicas, GoOnWithoutAWorkerThatLeaves) {
  Cluster cluster(3, 3);
  cluster.start();
  auto a = cluster.train_meanwhile(0, 2);
  auto b = cluster.train_meanwhile(1, 4);
  cluster.await_gradients(2);  // the update waits for the third
  EXPECT_EQ(cluster.step(), 0);
  cluster.chief().mark_left(cluster.session(), 2);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(b.get(), 1);
  EXPECT_EQ(cluster.variable(), 8.5f);
  EXPECT_EQ(cluster.live(), 2);
  for (int64_t step = 2; step <= 4; ++step) {  // no tokens pile up for the one that is gone
    auto again = cluster.train_meanwhile(0, 2);
    EXPECT_EQ(cluster.train(1, 4), step);
    EXPECT_EQ(again.get(), step);
    EXPECT_EQ(cluster.tokens(), 0);
  }
  cluster.stop();
}

TEST(SyncReplicas, GoOnWithTheLastWorker) {
  Cluster cluster(3, 3);
  cluster.start();
  cluster.worker(0).mark_left(cluster.session(), 1);
  cluster.worker(0).mark_left(cluster.session(), 2);
  cluster.worker(0).mark_left(cluster.session(), 2);  // twice is once
  EXPECT_EQ(cluster.live(), 1);
  for (int64_t step = 1; step <= 3; ++step) EXPECT_EQ(cluster.train(0, 2), step);
  EXPECT_EQ(cluster.variable(), 7.f);
  cluster.stop();
}

TEST(SyncReplicas, UseBackupWorkersBeforeTheyTakeLess) {
  Cluster cluster(2, 3);
  cluster.start();
  cluster.chief().mark_left(cluster.session(), 2);
  auto a = cluster.train_meanwhile(0, 2);
  cluster.await_gradients(1);
  EXPECT_EQ(cluster.step(), 0);  // two are needed still, and two are there
  EXPECT_EQ(cluster.train(1, 4), 1);
  EXPECT_EQ(a.get(), 1);
  EXPECT_EQ(cluster.tokens(), 0);
  cluster.stop();
}

TEST(SyncReplicas, AskLessOfThoseWhoStayWhenMoreBatchesThanWorkersAreTaken) {
  Cluster cluster(4, 2);
  cluster.start();
  cluster.chief().mark_left(cluster.session(), 1);
  EXPECT_EQ(cluster.train(0, 1), 0);
  EXPECT_EQ(cluster.train(0, 2), 0);
  EXPECT_EQ(cluster.train(0, 6), 1);  // 4 - 1 batches make an update
  EXPECT_EQ(cluster.variable(), 8.5f);
  for (int64_t step = 1; step <= 2; ++step) {
    EXPECT_EQ(cluster.train(0, 1), step);
    EXPECT_EQ(cluster.train(0, 1), step);
    EXPECT_EQ(cluster.train(0, 1), step + 1);
  }
  cluster.stop();
}

TEST(SyncReplicas, CountAWorkerAgainThatComesBack) {
  Cluster cluster(2, 2);
  cluster.start();
  cluster.chief().mark_left(cluster.session(), 1);
  EXPECT_EQ(cluster.train(0, 2), 1);
  cluster.session().run(cluster.worker(1).local_step_init_op());
  cluster.chief().mark_joined(cluster.session(), 1);
  EXPECT_EQ(cluster.live(), 2);
  // The chief hears of it soon; from then on updates are means of both again.
  float change = 0;
  for (int i = 0; i < 100 && change != 1.5f; ++i) {
    const float before = cluster.variable();
    auto a = cluster.train_meanwhile(0, 2);
    cluster.train(1, 4);
    a.get();
    change = before - cluster.variable();
  }
  EXPECT_EQ(change, 1.5f);
  cluster.stop();
}

TEST(SyncReplicas, KnowTheirWorkers) {
  Cluster cluster(2, 2);
  EXPECT_ERROR(Code::InvalidArgument, "there is no worker 2 among 2",
               cluster.chief().mark_left(cluster.session(), 2));
  EXPECT_ERROR(Code::InvalidArgument, "there is no worker -1",
               cluster.chief().mark_joined(cluster.session(), -1));
}

TEST(SyncReplicas, StopAtOnce) {
  Cluster cluster(2, 2);
  cluster.start();
  const auto begin = std::chrono::steady_clock::now();
  cluster.stop();  // the chief waits for gradients and for changes
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(SyncReplicas, SumRowsOfSparseGradientsEachByItself) {
  Graph graph;
  const auto building = graph.as_default();
  Variable table({{1.f}, {2.f}, {3.f}}, {.name = "table"});
  optim::Sgd sgd({.learning_rate = 1.0});
  std::vector<Tensor> rows, trains, inits;
  std::vector<std::unique_ptr<SyncReplicasOptimizer>> workers;
  for (int i = 0; i < 2; ++i) {
    workers.push_back(std::make_unique<SyncReplicasOptimizer>(
        sgd, SyncReplicasOptions{.replicas_to_aggregate = 2, .worker_index = i}));
    rows.push_back(placeholder(kInt64, {-1}));
    trains.push_back(
        workers.back()->minimize(sum(gather(table, rows.back())), {table}, global_step()));
  }
  const Tensor read = table.read_value();
  const Tensor init = global_variables_initializer();
  Session session;
  session.run(init);
  session.run(workers[0]->chief_init_op());
  session.run(workers[1]->local_step_init_op());
  Coordinator coordinator;
  workers[0]->get_chief_queue_runner().create_threads(session, coordinator);
  auto other = std::async(std::launch::async, [&] {
    session.run(trains[1], {{rows[1], Tensor({int64_t{2}, int64_t{0}})}});
  });
  session.run(trains[0], {{rows[0], Tensor({int64_t{0}})}}, {.timeout = kPatience});
  other.get();
  // Row 0 had two gradients of 1, row 2 one: each row's mean is 1.
  EXPECT_EQ(session.run(read).to_vector<float>(), (std::vector<float>{0, 2, 2}));
  coordinator.request_stop();
  coordinator.join({.stop_grace_period = kPatience});
}

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
  EXPECT_ERROR(Code::InvalidArgument, "'v' is not a graph's variable",
               optimizer.apply_gradients({constant(Tensor(1.f))}, {*v}, global_step()));
}

TEST_F(SyncReplicasRules, GiveNothingBeforeGradientsAreApplied) {
  const SyncReplicasOptimizer optimizer(sgd_);
  EXPECT_ERROR(Code::FailedPrecondition, "the hook is there only after",
               optimizer.make_session_run_hook(true));
  EXPECT_ERROR(Code::FailedPrecondition, "the chief's queue runner",
               optimizer.get_chief_queue_runner());
  EXPECT_ERROR(Code::FailedPrecondition, "initial tokens", optimizer.get_init_tokens_op());
}

// Tokens to begin with: at least R - N, 0 where all workers are needed once, any larger number.
TEST(SyncReplicas, BeginWithEnoughTokens) {
  const auto init_tokens = [](int to_aggregate, int total, int num_tokens) {
    Graph graph;
    const auto building = graph.as_default();
    Variable v(1.f, {.name = "v"});
    optim::Sgd sgd;
    SyncReplicasOptimizer optimizer(
        sgd, {.replicas_to_aggregate = to_aggregate, .total_num_replicas = total});
    optimizer.minimize(v * 2.f, {v}, global_step());
    const Tensor give = optimizer.get_init_tokens_op(num_tokens);
    const Tensor count = FifoQueue({.dtypes = {kInt64},
                                    .shapes = {{}},
                                    .name = "tokens",
                                    .shared_name = "sync_replicas/tokens"})
                             .size();
    const Tensor init = global_variables_initializer();
    Session session;
    session.run(init);
    session.run(give);
    return session.run(count).to<int64_t>();
  };
  EXPECT_EQ(init_tokens(2, 3, -1), 0);
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

// Two workers that make different numbers of steps, in one session.
void train_unequally(int chief_steps, int worker_steps, bool numbered) {
  Graph graph;
  const auto building = graph.as_default();
  Variable v(100.f, {.name = "v"});
  optim::Sgd sgd({.learning_rate = 0.01});
  const auto options = [&](int index) {
    SyncReplicasOptions made{.replicas_to_aggregate = 2};
    if (numbered) made.worker_index = index;
    return made;
  };
  SyncReplicasOptimizer chief(sgd, options(0)), other(sgd, options(1));
  const Tensor chief_train = chief.minimize(square(v), {v}, global_step());
  const Tensor other_train = other.minimize(square(v), {v}, global_step());
  const auto chief_hook = chief.make_session_run_hook(true);
  const auto other_hook = other.make_session_run_hook(false);
  const Tensor step = global_step().read_value();
  std::thread other_worker;
  MonitoredSession session({.hooks = {chief_hook}});
  Session& shared = session.raw_session();
  other_worker = std::thread([&] {
    Coordinator coordinator;
    other_hook->after_create_session(shared, coordinator);
    for (int i = 0; i < worker_steps; ++i) shared.run(other_train, {}, {.timeout = kPatience});
    other_hook->end(shared);
    coordinator.request_stop();
    coordinator.join();
  });
  session.manage([&] {
    for (int i = 0; i < chief_steps; ++i) session.run(chief_train);
  });
  other_worker.join();
}

TEST(SyncReplicas, OutlastAWorkerThatIsDoneEarly) { train_unequally(20, 3, true); }
TEST(SyncReplicas, AreServedByAChiefThatIsDoneEarly) { train_unequally(3, 20, true); }
TEST(SyncReplicas, NeedNoNumbersToLeave) {
  train_unequally(20, 3, false);
  train_unequally(3, 20, false);
}

TEST(SyncReplicas, LeaveAlsoWhenTheLoopFails) {
  Cluster cluster(2, 2);
  cluster.start();
  const auto hook = cluster.worker(1).make_session_run_hook(false);
  {
    Coordinator coordinator;
    hook->after_create_session(cluster.session(), coordinator);
    EXPECT_EQ(cluster.live(), 2);
    coordinator.request_stop({.code = Code::DataLoss, .message = "broken"});
    EXPECT_ERROR(Code::DataLoss, "broken", coordinator.join());
  }
  EXPECT_EQ(cluster.live(), 1);
  EXPECT_EQ(cluster.train(0, 2), 1);
  cluster.stop();
}

TEST(SyncReplicas, WaitForTheModelBeforeTheLocalStep) {
  Cluster cluster(1, 1);
  Coordinator coordinator;
  EXPECT_ERROR(Code::FailedPrecondition, "not initialised: v",
               cluster.chief().make_session_run_hook(true)->after_create_session(cluster.session(),
                                                                                 coordinator));
}

// A chief that was lost after it took the gradients: everybody waits for tokens that never came.
TEST(SyncReplicas, GoOnAfterTheChiefWasLost) {
  Cluster cluster(1, 1);
  cluster.start();
  EXPECT_EQ(cluster.train(0, 2), 1);
  cluster.stop();
  auto waiting = cluster.train_meanwhile(0, 2);
  cluster.await_gradients(1);
  cluster.session().run(
      ConditionalAccumulator({.shape = {}, .shared_name = "sync_replicas/v/gradients"})
          .take_gradient(1));
  Coordinator coordinator;
  const auto hook = cluster.chief().make_session_run_hook(true);
  hook->after_create_session(cluster.session(), coordinator);
  EXPECT_EQ(waiting.get(), 1);
  EXPECT_EQ(cluster.train(0, 2), 2);
  coordinator.request_stop();
  coordinator.join({.stop_grace_period = kPatience});
}

}  // namespace
}  // namespace cohort
