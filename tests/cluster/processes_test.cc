// A cluster of real processes: what works between them, and what is seen when one is killed,
// frozen, or started again.

#include <gtest/gtest.h>

#include <future>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/eventually.h"
#include "support/expect_error.h"
#include "support/process_cluster.h"

namespace cohort {
namespace {

using std::chrono::seconds;

struct OnPs {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Tensor x = placeholder(kFloat32, {-1});
  Tensor y, got, initialize, value;

  OnPs() {
    auto on = device("/job:ps/task:0");
    const Variable v = get_variable("v", {.shape = {}, .initializer = ones()});
    initialize = global_variables_initializer();
    value = v.read_value();
    y = x * 2.f;
    got = FifoQueue({.components = {{kFloat32, {}}}, .name = "queue"}).dequeue()[0];
    auto elsewhere = device("/job:worker/task:0");
    y = y + 1.f;
    got = got + 1.f;
  }
};

class Processes : public testing::Test {
 protected:
  test::ProcessCluster cluster_{COHORT_TEST_TASK, 1, 1};
  OnPs graph_;
  const Feeds feeds_{{graph_.x, Tensor({1.f, 2.f})}};

  void expect_works() {
    Session session(graph_.graph, cluster_.target());
    EXPECT_EQ(session.run(graph_.y, feeds_).to_vector<float>(), (std::vector<float>{3, 5}));
  }

  // Kills the job's task while a step waits on the ps, and expects the step to end soon, with this
  // in its message.
  void kill_during_step(Session& session, const char* job, const std::string& expected) {
    auto run =
        std::async(std::launch::async, [&] { return error_of([&] { session.run(graph_.got); }); });
    while (server_status(cluster_.target("ps")).running_steps == 0) {
    }
    cluster_.task(job, 0).send(SIGKILL);
    const Status outcome = run.get();
    EXPECT_EQ(outcome.code, Code::Unavailable) << outcome.to_string();
    EXPECT_NE(outcome.message.find(expected), std::string::npos) << outcome.message;
    // The end of a connection ended the step. The step neither waited until a silent task was
    // given up, nor for a task that did not end its part.
    for (const char* late : {"has not answered for", "did not answer", "did not end the run"}) {
      EXPECT_EQ(outcome.to_string().find(late), std::string::npos) << outcome;
    }
  }
};

TEST_F(Processes, RunAGraphTogether) {
  Session session(graph_.graph, cluster_.target());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(session.run(graph_.y, feeds_).to_vector<float>(), (std::vector<float>{3, 5}));
  }
}

TEST_F(Processes, ExchangeLargeTensors) {
  std::vector<float> numbers(4'000'000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1000);
  Session session(graph_.graph, cluster_.target());
  for (int i = 0; i < 3; ++i) {
    const Tensor result = session.run(graph_.y, {{graph_.x, Tensor::from(numbers)}});
    ASSERT_EQ(result.size(), 4'000'000);
    const std::vector<float> got = result.to_vector<float>();
    for (size_t k = 0; k < got.size(); k += 997) ASSERT_EQ(got[k], 2 * numbers[k] + 1);
  }
}

TEST_F(Processes, EndBySigtermAndFreeThePort) {
  expect_works();
  for (const char* job : {"ps", "worker"}) {
    cluster_.task(job, 0).send(SIGTERM);
    EXPECT_EQ(cluster_.task(job, 0).wait(seconds(10)), 0) << cluster_.task(job, 0).output();
    cluster_.start(job, 0);
  }
  expect_works();
}

TEST_F(Processes, AKilledPsIsNoticedDuringAStep) {
  Session session(graph_.graph, cluster_.target());
  session.run(graph_.initialize);
  kill_during_step(session, "ps", "/job:ps/replica:0/task:0");
  EXPECT_ERROR(Code::Unavailable, "/job:ps/replica:0/task:0", session.run(graph_.value));
  cluster_.start("ps", 0);
  Session again(graph_.graph, cluster_.target());
  EXPECT_ERROR(Code::FailedPrecondition, "v", again.run(graph_.value));
  EXPECT_ERROR(Code::Aborted, "/job:ps/replica:0/task:0", session.run(graph_.value));
  again.run(graph_.initialize);
  EXPECT_EQ(again.run(graph_.value).to<float>(), 1);
}

TEST_F(Processes, AKilledMasterIsNoticedDuringAStep) {
  Session session(graph_.graph, cluster_.target());
  session.run(graph_.initialize);
  kill_during_step(session, "worker", cluster_.spec().task_address("worker", 0));
  const auto is_idle = [&] { return server_status(cluster_.target("ps")).running_steps == 0; };
  EXPECT_TRUE(test::eventually(is_idle, seconds(5)))
      << "what it had under way on the ps ends with it";
  cluster_.start("worker", 0);
  Session again(graph_.graph, cluster_.target());
  EXPECT_EQ(again.run(graph_.value).to<float>(), 1);
  EXPECT_ERROR(Code::Aborted, "open a new", session.run(graph_.value));
}

TEST_F(Processes, AKilledClientLeavesNothingBehind) {
  expect_works();
  test::Process client({COHORT_TEST_TASK, cluster_.target()});
  ASSERT_TRUE(test::eventually([&] {
    return server_status(cluster_.target("ps")).running_steps == 1;
  })) << client.output();
  client.send(SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return server_status(cluster_.target()).sessions.empty(); }));
  EXPECT_TRUE(test::eventually([&] {
    const ServerStatus ps = server_status(cluster_.target("ps"));
    return ps.running_steps == 0 && ps.worker_sessions == 0;
  }));
  expect_works();
}

TEST_F(Processes, APsKilledWhileASessionIsMadeIsWaitedFor) {
  cluster_.task("ps", 0).send(SIGKILL);
  Session session(graph_.graph, cluster_.target());
  auto run = std::async(std::launch::async, [&] { return session.run(graph_.y, feeds_); });
  cluster_.start("ps", 0);
  EXPECT_EQ(run.get().to_vector<float>(), (std::vector<float>{3, 5}));
}

TEST_F(Processes, AFrozenPsIsGivenUpAndDoesNotComeBackIntoTheStep) {
  Session session(graph_.graph, cluster_.target());
  session.run(graph_.initialize);
  cluster_.task("ps", 0).freeze();
  // At the limit of the run the error would be that the task does not answer.
  EXPECT_ERROR(Code::Unavailable, "task /job:ps/replica:0/task:0 is lost",
               session.run(graph_.y, feeds_, {.timeout = seconds(8)}));
  cluster_.task("ps", 0).send(SIGCONT);
  EXPECT_ERROR(Code::Aborted, "/job:ps/replica:0/task:0", session.run(graph_.y, feeds_));
  Session again(graph_.graph, cluster_.target());
  EXPECT_EQ(again.run(graph_.value).to<float>(), 1);
}

TEST_F(Processes, ASecondServerAtOnePortSaysSo) {
  expect_works();
  test::Process second(
      {COHORT_TEST_TASK, cluster_.joined("ps"), cluster_.joined("worker"), "ps", "0"});
  EXPECT_EQ(second.wait(seconds(10)), 1);
  EXPECT_NE(second.output().find("UNKNOWN"), std::string::npos) << second.output();
  expect_works();
}

}  // namespace
}  // namespace cohort
