// What is seen when a task goes away, and when it comes back.

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "support/connection_tries.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"

namespace cohort {
namespace {

struct OnPs {
  Graph graph;
  Graph::Scope building = graph.as_default();
  Tensor x = placeholder(kFloat32, {});
  Tensor y, got, sum;

  OnPs() {
    auto on = device("/job:ps/task:0");
    y = x * 2.f;
    got = FifoQueue({.components = {{kFloat32, {}}}, .name = "queue"}).dequeue()[0];
    auto elsewhere = device("/job:worker/task:0");
    sum = got + x;
  }
};

TEST(LostTask, EndsARunThatUsesIt) {
  test::LocalCluster cluster(1, 1, {.silence_limit = std::chrono::hours(1)});
  OnPs graph;
  Session session(cluster.target());
  auto run = std::async(std::launch::async, [&] {
    return error_of([&] { session.run(graph.sum, {{graph.x, Tensor(1.f)}}); });
  });
  while (cluster.server("ps", 0).status().running_steps == 0) std::this_thread::yield();
  cluster.stop("ps", 0);
  const Status status = run.get();
  EXPECT_EQ(status.code, Code::Unavailable) << status.to_string();
  EXPECT_EQ(status.message.find("did not end the run"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("/job:ps/replica:0/task:0"), std::string::npos) << status.message;
}

TEST(LostTask, IsUnavailableThenAbortedWhenItIsBack) {
  test::LocalCluster cluster(1, 1);
  OnPs graph;
  Session session(cluster.target());
  const Feeds feeds{{graph.x, Tensor(1.f)}};
  EXPECT_EQ(session.run(graph.y, feeds).to<float>(), 2);
  cluster.stop("ps", 0);
  const Status lost = error_of([&] { session.run(graph.y, feeds); });
  EXPECT_EQ(lost.code, Code::Unavailable) << lost;
  EXPECT_NE(lost.message.find("/job:ps/replica:0/task:0"), std::string::npos) << lost;
  test::expect_tried_at_most_for(std::chrono::seconds(1), lost);
  cluster.start("ps", 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_ERROR(Code::Aborted, "/job:ps/replica:0/task:0", session.run(graph.y, feeds));
    EXPECT_ERROR(Code::Aborted, "open a new session", session.run({graph.y, graph.x}, feeds));
  }
  Session again(cluster.target());
  EXPECT_EQ(again.run(graph.y, feeds).to<float>(), 2);
}

TEST(LostTask, TheMasterIsNamedToo) {
  test::LocalCluster cluster(1, 1);
  OnPs graph;
  Session session(cluster.target());
  const Feeds feeds{{graph.x, Tensor(1.f)}};
  session.run(graph.y, feeds);
  cluster.stop("worker", 0);
  EXPECT_ERROR(Code::Unavailable, cluster.spec().task_address("worker", 0),
               session.run(graph.y, feeds));
  cluster.start("worker", 0);
  EXPECT_ERROR(Code::Aborted, "open a new", session.run(graph.y, feeds));
  EXPECT_ERROR(Code::Aborted, "open a new", session.run({graph.y, graph.x}, feeds));
  Session again(cluster.target());
  EXPECT_EQ(again.run(graph.y, feeds).to<float>(), 2);
}

TEST(LostTask, ThatIsNotUsedIsNotMissed) {
  test::LocalCluster cluster(1, 2);
  OnPs graph;
  Session session(cluster.target());
  const Feeds feeds{{graph.x, Tensor(1.f)}};
  session.run(graph.y, feeds);
  cluster.stop("worker", 1);
  EXPECT_EQ(session.run(graph.y, feeds).to<float>(), 2);
}

TEST(MissingTask, IsNamedWithTheReason) {
  test::LocalCluster cluster(1, 1);
  cluster.stop("ps", 0);
  OnPs graph;
  Session session(cluster.target());
  const auto status = error_of([&] {
    session.run(graph.y, {{graph.x, Tensor(1.f)}}, {.timeout = std::chrono::milliseconds(300)});
  });
  EXPECT_EQ(status.code, Code::Unavailable);
  for (const std::string& part :
       {std::string("1 of 1 tasks"), std::string("/job:ps/replica:0/task:0"),
        cluster.spec().task_address("ps", 0)}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  }
}

// Reasons that no waiting mends are told at once.
TEST(MissingTask, MayBelongToAnotherCluster) {
  test::LocalCluster cluster(1, 1);
  cluster.stop("ps", 0);
  const std::string address = cluster.spec().task_address("ps", 0);
  const Server other(ClusterSpec{{"ps", {address}}});
  OnPs graph;
  Session session(cluster.target());
  const auto status = error_of([&] { session.run(graph.y, {{graph.x, Tensor(1.f)}}); });
  EXPECT_EQ(status.code, Code::FailedPrecondition) << status;
  for (const std::string& part :
       {std::string("/job:ps/replica:0/task:0"), std::string("cluster")}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  }
}

TEST(MissingTask, MayHaveANameThatNobodyKnows) {
  const std::string worker = test::free_addresses(1)[0];
  const Server server(ClusterSpec{{"ps", {"no-such-host.invalid:2222"}}, {"worker", {worker}}},
                      {.job_name = "worker", .task_index = 0});
  OnPs graph;
  Session session(graph.graph, server.target());
  const auto status = error_of([&] {
    session.run(graph.y, {{graph.x, Tensor(1.f)}}, {.timeout = std::chrono::seconds(3)});
  });
  EXPECT_EQ(status.code, Code::Unavailable) << status;
  EXPECT_NE(status.message.find("no-such-host.invalid"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("name"), std::string::npos) << status.message;
}

TEST(MissingTask, IsToldWhileItIsWaitedFor) {
  test::LocalCluster cluster(1, 1);
  cluster.stop("ps", 0);
  OnPs graph;
  Session session(cluster.target());
  testing::internal::CaptureStderr();
  const auto status = error_of([&] {
    session.run(graph.y, {{graph.x, Tensor(1.f)}}, {.timeout = std::chrono::milliseconds(3'000)});
  });
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status.code, Code::Unavailable);
  const size_t first = told.find("waiting for task /job:ps/replica:0/task:0");
  EXPECT_NE(first, std::string::npos) << told;
  // Once: server and client are one process.
  EXPECT_EQ(told.find("waiting for task", first + 1), std::string::npos) << told;
}

TEST(MissingTask, ThatComesLaterIsWaitedFor) {
  test::LocalCluster cluster(1, 1);
  cluster.stop("ps", 0);
  OnPs graph;
  Session session(cluster.target());
  auto run = std::async(std::launch::async, [&] {
    return session.run(graph.y, {{graph.x, Tensor(1.f)}}).to<float>();
  });
  EXPECT_EQ(run.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  cluster.start("ps", 0);
  EXPECT_EQ(run.get(), 2);
}

}  // namespace
}  // namespace cohort
