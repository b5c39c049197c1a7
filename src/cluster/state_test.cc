// State on the devices of tasks: who shares it, and how long it lives.

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/on_ps.h"

namespace cohort {
namespace {

struct Counter {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Tensor value, initialize, add;

  explicit Counter(const Shape& shape = {}) {
    auto on = device("/job:ps/task:0");
    Variable v = get_variable("counter", {.shape = shape, .initializer = zeros()});
    initialize = global_variables_initializer();
    value = v.read_value();
    add = v.assign_add(ones(shape));
  }
};

TEST(TaskState, SessionsOfDifferentMastersShareAVariableByName) {
  test::LocalCluster cluster(1, 2);
  Counter mine;
  Session first(mine.graph, cluster.target("worker", 0));
  first.run(mine.initialize);
  first.run(mine.add);
  Counter other;
  Session second(other.graph, cluster.target("worker", 1));
  EXPECT_EQ(second.run(other.value).to<float>(), 1);
  second.run(other.add);
  EXPECT_EQ(first.run(mine.value).to<float>(), 2);
}

TEST(TaskState, OutlivesTheSession) {
  test::LocalCluster cluster(1, 1);
  Counter counter;
  {
    Session session(cluster.target());
    session.run(counter.initialize);
    session.run(counter.add);
  }
  Session session(cluster.target());
  EXPECT_EQ(session.run(counter.value).to<float>(), 1);
}

// A variable "counter" as another program may declare it.
struct OtherCounter {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Tensor initialize, value, add, rows, set_rows;

  OtherCounter(const Shape& shape, DType dtype) {
    auto on = device("/job:ps/task:0");
    Variable v = get_variable("counter", {.shape = shape, .dtype = dtype, .initializer = zeros()});
    initialize = global_variables_initializer();
    value = v.read_value();
    add = v.assign_add(cast(ones(shape), dtype));
    if (shape.rank() == 0) return;
    const Tensor first({int64_t{0}});
    rows = gather(v, first);
    set_rows = v.scatter_add({cast(ones(shape.with(0, 1)), dtype), first, shape});
  }
};

TEST(TaskState, OfAnotherShapeIsReadAsItIsAndNotOverwritten) {
  test::LocalCluster cluster(1, 2);
  Counter mine({2});
  Session first(mine.graph, cluster.target("worker", 0));
  first.run(mine.initialize);
  for (const Shape& shape : {Shape{3}, Shape{3, 2}}) {
    OtherCounter other(shape, kFloat32);
    Session second(other.graph, cluster.target("worker", 1));
    EXPECT_EQ(second.run(other.value).shape(), (Shape{2}));
    EXPECT_ERROR(Code::InvalidArgument, "'counter' holds float32 of shape (2,)",
                 second.run(other.initialize));
    EXPECT_ERROR(Code::InvalidArgument, "AssignAdd", second.run(other.add));
  }
  EXPECT_EQ(first.run(mine.value).to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(TaskState, OfAnotherDtypeIsAnErrorWhateverIsDoneWithIt) {
  test::LocalCluster cluster(1, 2);
  Counter mine({2});
  Session first(mine.graph, cluster.target("worker", 0));
  first.run(mine.initialize);
  for (const DType dtype : {kFloat64, kInt32, kInt8}) {
    OtherCounter other({2}, dtype);
    Session second(other.graph, cluster.target("worker", 1));
    for (const Tensor& use :
         {other.initialize, other.value, other.add, other.rows, other.set_rows}) {
      EXPECT_ERROR(Code::InvalidArgument, "'counter' holds float32", second.run(use));
    }
  }
  EXPECT_EQ(first.run(mine.value).to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(TaskState, OfAnotherRankHarmsNothing) {
  test::LocalCluster cluster(1, 1);
  Counter mine;
  Session first(mine.graph, cluster.target());
  first.run(mine.initialize);
  OtherCounter other({2}, kFloat32);
  Session second(other.graph, cluster.target());
  EXPECT_ERROR(Code::InvalidArgument, "'counter' of shape ()", second.run(other.set_rows));
  EXPECT_NE(error_of([&] { second.run(other.rows); }).message.find("node 'Gather'"),
            std::string::npos);
  EXPECT_EQ(first.run(mine.value).to<float>(), 0);
}

TEST(TaskState, IsForgottenAlsoByPlansThatUsedItBefore) {
  test::LocalCluster cluster(1, 2);
  Counter counter;
  Session session(cluster.target("worker", 0));
  session.run(counter.initialize);
  session.run(counter.add);
  EXPECT_EQ(session.run(counter.value).to<float>(), 1);
  reset(cluster.target("worker", 1));  // closes the sessions of that master only
  EXPECT_ERROR(Code::FailedPrecondition, "counter", session.run(counter.value));
  session.run(counter.initialize);
  EXPECT_EQ(session.run(counter.value).to<float>(), 0);
}

TEST(TaskState, BelongsToItsTask) {
  test::LocalCluster cluster(2, 1);
  Counter counter;
  Session session(cluster.target());
  session.run(counter.initialize);
  Graph graph;
  auto building = graph.as_default();
  auto on = device("/job:ps/task:1");
  const Variable same = get_variable("counter", {.shape = {}, .initializer = zeros()});
  Session other(graph, cluster.target());
  EXPECT_ERROR(Code::FailedPrecondition, "counter", other.run(same.read_value()));
}

TEST(TaskState, AnIsolatedSessionHasItsOwn) {
  test::LocalCluster cluster(1, 1);
  Counter counter;
  Session shared(cluster.target());
  shared.run(counter.initialize);
  Session isolated(cluster.target(), {.isolate_session_state = true});
  EXPECT_ERROR(Code::FailedPrecondition, "counter", isolated.run(counter.value));
  isolated.run(counter.initialize);
  isolated.run(counter.add);
  EXPECT_EQ(isolated.run(counter.value).to<float>(), 1);
  EXPECT_EQ(shared.run(counter.value).to<float>(), 0);
}

TEST(TaskState, AVariableThatWasNeverAssignedIsNamed) {
  test::LocalCluster cluster(1, 1);
  Counter counter;
  Session session(cluster.target());
  EXPECT_ERROR(Code::FailedPrecondition, "counter", session.run(counter.value));
}

TEST(Containers, KeepStateOfOneNameApart) {
  test::LocalCluster cluster(1, 1);
  const auto in = [&](const std::string& name, auto&& use) {
    const auto inside = container(name);
    const Counter counter;
    Session session(counter.graph, cluster.target());
    use(session, counter);
  };
  const auto count = [](Session& session, const Counter& counter) {
    session.run(counter.initialize);
    session.run(counter.add);
  };
  const auto expect = [](float value) {
    return [value](Session& session, const Counter& counter) {
      EXPECT_EQ(session.run(counter.value).to<float>(), value);
    };
  };
  const auto expect_nothing = [](Session& session, const Counter& counter) {
    EXPECT_ERROR(Code::FailedPrecondition, "counter", session.run(counter.value));
  };
  in("", count);
  in("experiment", expect_nothing);
  in("experiment", count);
  in("experiment", [](Session& session, const Counter& counter) { session.run(counter.add); });
  in("", expect(1));
  in("experiment", expect(2));
  reset(cluster.target(), {"experiment"});
  in("", expect(1));
  in("experiment", expect_nothing);
  in("experiment", count);
  reset(cluster.target());
  in("", expect_nothing);
  in("experiment", expect(1));
}

TEST(Containers, HaveNames) {
  EXPECT_ERROR(Code::InvalidArgument, "is not a name", container("_private"));
  EXPECT_ERROR(Code::InvalidArgument, "is not a name", container("a b"));
  auto outer = container("a");
  const auto inner = container("b");
  EXPECT_ERROR(Code::FailedPrecondition, "Container", outer.close());
}

TEST(Reset, ForgetsStateAndEndsSessions) {
  test::LocalCluster cluster(1, 2);
  Counter counter;
  Session session(cluster.target("worker", 0));
  session.run(counter.initialize);
  Session elsewhere(cluster.target("worker", 1));
  reset(cluster.target("worker", 0));
  EXPECT_ERROR(Code::Aborted, "open a new", session.run(counter.value));
  EXPECT_ERROR(Code::Aborted, "open a new", session.run(counter.add));
  EXPECT_ERROR(Code::FailedPrecondition, "counter", elsewhere.run(counter.value));
}

TEST(Reset, EndsWhatRuns) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor got = test::never_on_ps();
  Session session(cluster.target());
  auto run = std::async(std::launch::async, [&] { return error_of([&] { session.run(got); }); });
  while (cluster.server("ps", 0).status().running_steps == 0) std::this_thread::yield();
  reset(cluster.target());
  const Status status = run.get();
  EXPECT_EQ(status.code, Code::Cancelled) << status.to_string();
  // The message would go on if a task had not ended the run when told to.
  EXPECT_TRUE(status.message.ends_with("the session was closed")) << status.to_string();
}

TEST(Reset, OfAnUnknownContainerClearsNothingButEndsSessions) {
  test::LocalCluster cluster(1, 1);
  Counter counter;
  Session session(cluster.target());
  session.run(counter.initialize);
  reset(cluster.target(), {"nobody's"});
  EXPECT_ERROR(Code::Aborted, "open a new", session.run(counter.value));
  Session again(cluster.target());
  EXPECT_EQ(again.run(counter.value).to<float>(), 0);
  reset(cluster.target(), {"ps"});
  Session third(cluster.target());
  EXPECT_ERROR(Code::FailedPrecondition, "counter", third.run(counter.value));
}

}  // namespace
}  // namespace cohort
