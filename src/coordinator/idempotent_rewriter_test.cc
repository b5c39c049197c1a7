// Updates of repeated calls are idempotent.

#include "coordinator/idempotent_rewriter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "cluster/remote_session.h"
#include "coordinator/session_graph.h"
#include "ops/all_ops.h"
#include "support/coordinated_cluster.h"

namespace cohort::internal {
namespace {

// An accumulator on a parameter server, and what is done with it there.
class Gathering : public testing::Test {
 protected:
  test::LocalCluster cluster_{1, 1};
  const DeviceName home_ = DeviceName::parse("/job:ps/replica:0/task:0/device:CPU:0");
  const std::shared_ptr<GraphImpl> graph_ = std::make_shared<GraphImpl>();
  const NodeOutput call_id_ = add_placeholder(*graph_, "call_id", {kInt64, Shape{3}}, home_);
  const NodeOutput number_ = add_placeholder(*graph_, "number", {kInt64, Shape{}}, home_);
  const NodeOutput gradient_ = add_placeholder(*graph_, "gradient", {kFloat32, Shape{}}, home_);
  const Attrs kind_{{"dtype", kFloat32}, {"shape", Shape{}}};
  const NodeOutput handle_{add_node(*graph_, "handle", kAccumulatorHandle, {},
                                    {{"dtype", kFloat32},
                                     {"shape", Shape{}},
                                     {"mean", true},
                                     {"sparse", false},
                                     {"container", std::string("here")},
                                     {"shared_name", std::string("sum")}},
                                    home_)};
  const std::shared_ptr<RemoteSession> session_ = std::make_shared<RemoteSession>(
      graph_, cluster_.spec().task_address("ps", 0), SessionOptions());
  std::shared_ptr<const PreparedCall> take_, apply_;

  Gathering() {
    const Node take{.name = "take",
                    .op = &kAccumulatorTake,
                    .attrs = kind_,
                    .inputs = {handle_, number_},
                    .controls = {},
                    .device = home_,
                    .outputs = {{kFloat32, Shape{}}}};
    const NodeOutput taken{
        graph_->add(IdempotentRewriter(*graph_, "here").rewrite(take, {handle_}, call_id_))};
    Attrs named = kind_;
    named.set("accumulator", std::string("sum"));
    const NodeOutput applied{
        add_node(*graph_, "apply", kAccumulatorApply, {handle_, gradient_, number_}, named, home_)};
    session_->open();
    take_ = session_->make_callable({graph_->symbol(call_id_), graph_->symbol(number_)},
                                    {graph_->symbol(taken)});
    apply_ = session_->make_callable({graph_->symbol(gradient_), graph_->symbol(number_)},
                                     {graph_->symbol(applied)});
  }

  float take(int64_t call, int64_t all_done_below = 1, int64_t coordinator = 1) const {
    const Tensor call_id({coordinator, call, all_done_below});
    return session_->run_callable(*take_, {call_id, Tensor(int64_t{1})}, {}).at(0).to<float>();
  }
  void push(float gradient) const {
    session_->run_callable(*apply_, {Tensor(gradient), Tensor(int64_t{9})}, {});
  }
};

TEST_F(Gathering, IsTakenOnceByACallThatIsRepeated) {
  push(2);
  EXPECT_EQ(take(1), 2);
  EXPECT_EQ(take(1), 2);  // there is nothing more that could be taken
  push(5);
  EXPECT_EQ(take(1), 2);
  EXPECT_EQ(take(2, 2), 5);
  EXPECT_ERROR(Code::Cancelled, "already ended", take(1));
}

TEST_F(Gathering, IsRefusedToACoordinatorOlderThanTheLast) {
  push(2);
  EXPECT_EQ(take(1, 1, 2'000'000'000), 2);
  push(5);
  EXPECT_ERROR(Code::FailedPrecondition, "started 1.500 s later", take(2, 1, 500'000'000));
  EXPECT_EQ(take(2, 1, 2'000'000'000), 5);
}

TEST_F(Gathering, IsWaitedForByTheRepetitionOfACallThatIsAtIt) {
  auto first = std::async(std::launch::async, [&] { return take(1); });
  auto again = std::async(std::launch::async, [&] { return take(1); });
  push(3);
  EXPECT_EQ(first.get(), 3);
  EXPECT_EQ(again.get(), 3);
}

// A variable, and branches and loops that use it, in a graph.
class Calls : public testing::Test {
 protected:
  // Whether the call that gave `result` is rewritten.
  bool is_guarded(const Tensor& result) const {
    GraphImpl& impl = *GraphAccess::impl(graph_);
    const Node& call = impl.node(impl.node_output(result).node);
    const NodeOutput call_id = add_placeholder(impl, "call_id", {kInt64, Shape{3}}, {});
    const Node made = IdempotentRewriter(impl, "here")
                          .rewrite(call, {impl.node_output(graph_.tensor("v"))}, call_id);
    return made.inputs != call.inputs;
  }
  Tensor branch(const std::function<Tensor()>& body) const {
    return cond(
        v_ > 0.f, [&] { return std::vector{body()}; }, [&] { return std::vector{body()}; })[0];
  }
  Tensor loop(const std::function<Tensor()>& body) const {
    return while_loop([&](std::span<const Tensor> i) { return i[0] < v_; },
                      [&](std::span<const Tensor> i) { return std::vector{i[0] + body()}; },
                      {constant(Tensor(0.f))})[0];
  }

  Graph graph_;
  const Graph::Scope building_ = graph_.as_default();
  Variable v_ = get_variable("v", {.shape = {}, .initializer = nn::ones()});
};

TEST_F(Calls, ThatOnlyReadStayAsTheyAre) {
  const auto read = [&] { return v_.read_value(); };
  EXPECT_FALSE(is_guarded(branch(read)));
  EXPECT_FALSE(is_guarded(loop(read)));
  EXPECT_FALSE(is_guarded(loop([&] { return branch(read); })));
}

TEST_F(Calls, ThatChangeStateAreGuardedHoweverDeepTheChangeIs) {
  const auto change = [&] { return v_.assign_add(1.f); };
  EXPECT_TRUE(is_guarded(branch(change)));
  EXPECT_TRUE(is_guarded(loop(change)));
  EXPECT_TRUE(is_guarded(loop([&] { return branch(change); })));
}

// How often the next calls of the function below fail as if their worker had been cancelled.
std::atomic<int> g_failures{0};

Tensor pass_or_fail(Tensor value) {
  if (g_failures.fetch_sub(1) > 0) throw Error(Code::Cancelled, "[Test] once more");
  return value;
}
COHORT_FUNCTION(once_test_pass_or_fail, pass_or_fail);

// Runs on the task that calls it.
Tensor may_fail(const Tensor& value) {
  return call_native("once_test_pass_or_fail", {value}, {{value.dtype(), value.shape()}})[0];
}

// A cluster on which functions fail after they have changed something, and are called again.
class RepeatedCalls : public testing::Test, public test::CoordinatedCluster {
 protected:
  RepeatedCalls() : CoordinatedCluster(1, 1) {}

  template <typename F, typename... Args>
  float value_of(int failures, const F& f, const Args&... args) {
    g_failures = failures;
    const float value = coordinator_.fetch(coordinator_.schedule(f, args...)).template to<float>();
    EXPECT_LT(g_failures, 0) << "it did not fail";
    return value;
  }

  ClusterCoordinator coordinator_{strategy};
  Variable v = strategy.create([] { return Variable(0.f); });
  Variable w = strategy.create([] { return Variable(0.f); });
};

TEST_F(RepeatedCalls, ChangeVariablesOnce) {
  EXPECT_EQ(value_of(2, [&] { return may_fail(v.assign_add(1.f)); }), 1);
  EXPECT_EQ(v.read_value().to<float>(), 1);
}

TEST_F(RepeatedCalls, ReadRowsAnew) {
  Variable table = strategy.create([] { return Variable({{1.f}, {2.f}, {3.f}}); });
  const auto rows = [&] { return may_fail(sum(gather(table, Tensor({0, 2}), 0))); };
  EXPECT_EQ(value_of(1, rows), 4);
}

TEST_F(RepeatedCalls, ChangeVariablesOnceInBranches) {
  const auto step = function([&](Tensor x) {
    const auto changed = cond(
        x > 0.f, [&] { return std::vector{v.assign_add(x)}; },
        [&] { return std::vector{v.assign_sub(10.f * x)}; });
    return may_fail(changed[0]);
  });
  EXPECT_EQ(value_of(2, step, Tensor(3.f)), 3);
  EXPECT_EQ(value_of(1, step, Tensor(-1.f)), 13);
  EXPECT_EQ(v.read_value().to<float>(), 13);
}

TEST_F(RepeatedCalls, TakeTheBranchThatTheyTookBefore) {
  const auto toggle = function([&] {
    const auto changed = cond(
        v < 1.f, [&] { return std::vector{v.assign_add(1.f)}; },
        [&] { return std::vector{v.assign_sub(1.f)}; });
    return may_fail(changed[0]);
  });
  EXPECT_EQ(value_of(1, toggle), 1);
  EXPECT_EQ(v.read_value().to<float>(), 1);
  EXPECT_EQ(value_of(3, toggle), 0);
}

TEST_F(RepeatedCalls, ChangeVariablesOnceInEachIteration) {
  const auto loop = function([&] {
    const auto last = while_loop([](std::span<const Tensor> i) { return i[0] < 5.f; },
                                 [&](std::span<const Tensor> i) {
                                   v.assign_add(i[0] + 1.f);
                                   return std::vector{i[0] + 1.f};
                                 },
                                 {Tensor(0.f)});
    return may_fail(last[0]);
  });
  EXPECT_EQ(value_of(2, loop), 5);
  EXPECT_EQ(v.read_value().to<float>(), 15);
}

TEST_F(RepeatedCalls, GoOnInTheMiddleOfALoop) {
  const auto loop = function([&](Tensor times) {
    return while_loop([&](std::span<const Tensor> i) { return i[0] < times; },
                      [&](std::span<const Tensor> i) {
                        const Tensor one = may_fail(v.assign_add(1.f)) * 0.f + 1.f;
                        w.assign_add(one);
                        return std::vector{i[0] + one};
                      },
                      {Tensor(0.f)})[0];
  });
  for (const int failures : {1, 4}) {
    const float before = v.read_value().to<float>();
    EXPECT_EQ(value_of(failures, loop, Tensor(6.f)), 6);
    EXPECT_EQ(v.read_value().to<float>(), before + 6);
    EXPECT_EQ(w.read_value().to<float>(), before + 6);
  }
}

// The first call has made the condition false, but not come to the end of the iteration.
TEST_F(RepeatedCalls, EndIterationsThatTheyBegan) {
  const auto loop = function([&] {
    return while_loop([&](std::span<const Tensor>) { return v < 3.f; },
                      [&](std::span<const Tensor> i) {
                        const Tensor three = may_fail(v.assign_add(3.f)) * 0.f + 3.f;
                        return std::vector{i[0] + w.assign_add(three)};
                      },
                      {Tensor(0.f)})[0];
  });
  EXPECT_EQ(value_of(1, loop), 3);
  EXPECT_EQ(v.read_value().to<float>(), 3);
  EXPECT_EQ(w.read_value().to<float>(), 3);
}

TEST_F(RepeatedCalls, ChangeVariablesOnceInBranchesOfLoopsInLoops) {
  const auto count_to = [](float end, const std::function<Tensor(const Tensor& i)>& body) {
    return while_loop([=](std::span<const Tensor> i) { return i[0] < end; },
                      [&](std::span<const Tensor> i) {
                        return std::vector{i[0] + 1.f, i[1] + body(i[0])};
                      },
                      {Tensor(0.f), Tensor(0.f)})[1];
  };
  const auto step = function([&] {
    return count_to(3, [&](const Tensor& i) {
      return count_to(2, [&](const Tensor& j) {
        const auto changed = cond(
            v < 2.f, [&] { return std::vector{v.assign_add(i + j)}; },
            [&] { return std::vector{v.assign_sub(1.f)}; });
        return may_fail(changed[0]) * 0.f + 1.f;
      });
    });
  });
  g_failures = 0;
  coordinator_.fetch(coordinator_.schedule(step));
  const float expected = v.read_value().to<float>();
  for (const int failures : {1, 2, 7}) {
    v.assign(0.f);
    EXPECT_EQ(value_of(failures, step), 6);
    EXPECT_EQ(v.read_value().to<float>(), expected);
  }
}

TEST_F(RepeatedCalls, ChangeTheirWorkersVariablesOnce) {
  const PerWorkerVariable seen(Tensor(0.f), "seen");
  const auto count = function([&] {
    Variable own = seen;
    const auto twice = cond(
        own < 10.f, [&] { return std::vector{own.assign_add(1.f)}; },
        [&] { return std::vector{own.assign_sub(1.f)}; });
    return may_fail(own.assign_add(twice[0] * 0.f + 1.f));
  });
  EXPECT_EQ(value_of(2, count), 2);
  EXPECT_EQ(coordinator_.read_all(seen)[0].to<float>(), 2);
}

TEST_F(RepeatedCalls, TakeTheElementThatTheyTookBefore) {
  const auto iterator = coordinator_.create_per_worker_dataset(data::range(100)).iterator();
  const auto next = function([](Iterator it) {
    const Tensor first = cast(it.next().tensor(), kFloat32);
    return may_fail(first * 10.f + cast(it.next().tensor(), kFloat32));
  });
  EXPECT_EQ(value_of(2, next, iterator), 1);
  EXPECT_EQ(value_of(1, next, iterator), 23);
}

// The coordinator that was made later does not outdate the calls of the other.
TEST(Coordinators, OfTwoStrategiesChangeTheirVariablesSideBySide) {
  const test::LocalCluster cluster(1, 1);
  const SimpleClusterResolver resolver(cluster.spec());
  ParameterServerStrategy one(resolver), other(resolver);
  Variable a = one.create([] { return Variable(0.f); });
  Variable b = other.create([] { return Variable(0.f); });
  ClusterCoordinator first(one), second(other);
  const auto add_to_a = function([&] { a.assign_add(1.f); });
  const auto add_to_b = function([&] { b.assign_add(1.f); });
  for (int i = 0; i < 3; ++i) {
    first.fetch(first.schedule(add_to_a));
    second.fetch(second.schedule(add_to_b));
  }
  EXPECT_EQ(a.read_value().to<float>(), 3);
  EXPECT_EQ(b.read_value().to<float>(), 3);
}

}  // namespace
}  // namespace cohort::internal
