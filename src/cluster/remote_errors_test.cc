// How runs on a server end that do not end well.

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <thread>

#include "base/activity.h"
#include "cohort/cohort.h"
#include "support/connection_tries.h"
#include "support/eventually.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/on_ps.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

TEST(RemoteSession, NobodyListensThere) {
  const std::string address = test::free_addresses(1)[0];
  const Graph graph;
  const Status status = error_of([&] { Session(graph, address, {.timeout = milliseconds(100)}); });
  EXPECT_EQ(status.code, Code::Unavailable) << status;
  EXPECT_NE(status.message.find(address), std::string::npos) << status;
  test::expect_tried_for(milliseconds(100), status);
}

TEST(RemoteSession, AServerThatIsNotThereIsToldWhileItIsWaitedFor) {
  const std::string address = test::free_addresses(1)[0];
  testing::internal::CaptureStderr();
  // The first notice comes with the first try after 2.5 s, which is late on a loaded machine.
  (void)error_of([&] { Session(Graph(), address, {.timeout = milliseconds(8000)}); });
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("still trying to reach " + address + ": [Connect] no process listens"),
            std::string::npos)
      << told;
}

size_t noted_runs() {
  const auto waits = internal::local_activity().waits;
  return static_cast<size_t>(std::count_if(waits.begin(), waits.end(), [](const auto& wait) {
    return wait.what.starts_with("a run of a session");
  }));
}

// Of two runs that wait, the first has a limit of days.
TEST(RemoteSession, ARunThatIsThereToWaitIsNoStall) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor got = test::never_on_ps();
  Session session(cluster.target());
  std::vector<std::future<Status>> runs;
  using Limit = std::optional<std::chrono::milliseconds>;
  for (const Limit& limit : {Limit(std::chrono::hours(48)), Limit()}) {
    runs.push_back(std::async(std::launch::async, [&, limit] {
      return error_of([&] { session.run(got, {}, {.timeout = limit}); });
    }));
    ASSERT_TRUE(test::eventually(
        [&] { return cluster.server("ps", 0).status().running_steps == runs.size(); }));
  }
  EXPECT_TRUE(test::eventually([] { return noted_runs() > 0; }));
  EXPECT_EQ(noted_runs(), 1u);
  session.close();
}

TEST(RemoteSession, ALimitEndsALongRun) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor got = test::never_on_ps();
  const Tensor used = neg(got);
  Session session(cluster.target());
  const Status status = error_of([&] { session.run(used, {}, {.timeout = milliseconds(100)}); });
  EXPECT_EQ(status.code, Code::DeadlineExceeded) << status;
  // The master says so, not the client, and the tasks have ended the run when told to.
  EXPECT_NE(status.message.find("longer than 100 ms, waiting for"), std::string::npos) << status;
  EXPECT_EQ(status.message.find("did not end the run"), std::string::npos) << status;
}

TEST(RemoteSession, ALimitNamesThoseWhoAreWaitedFor) {
  test::LocalCluster cluster(2, 1);
  Graph graph;
  auto building = graph.as_default();
  std::vector<Tensor> got;
  for (const char* place : {"/job:ps/task:0", "/job:ps/task:1"}) {
    auto on = device(place);
    got.push_back(FifoQueue({.components = {{kFloat32}}, .name = "queue"}).dequeue()[0]);
  }
  const Tensor quick = constant(1.f) + 1.f;
  Session session(cluster.target());
  const Status status = error_of([&] {
    session.run({got[1], quick}, {}, {.timeout = milliseconds(100)});
  });
  EXPECT_EQ(status.code, Code::DeadlineExceeded);
  EXPECT_NE(status.message.find("waiting for /job:ps/replica:0/task:1"), std::string::npos)
      << status.message;
  EXPECT_EQ(status.message.find("/job:worker"), std::string::npos) << status.message;
}

TEST(RemoteSession, ClosingEndsWhatRuns) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  Tensor got, put;
  {
    auto on = device("/job:ps/task:0");
    FifoQueue queue({.components = {{kFloat32}}, .name = "later"});
    got = queue.dequeue()[0];
    put = queue.enqueue({constant(1.f)});
  }
  Session session(cluster.target());
  session.run(put);
  session.run(got);
  auto run = std::async(std::launch::async, [&] { return error_of([&] { session.run(got); }); });
  while (cluster.server("ps", 0).status().running_steps == 0) std::this_thread::yield();
  testing::internal::CaptureStderr();
  session.close();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // no warning that the server is late
  const Status status = run.get();
  EXPECT_EQ(status.code, Code::Cancelled) << status.to_string();
  EXPECT_TRUE(status.message.ends_with("the session was closed")) << status.to_string();
  EXPECT_EQ(cluster.server("ps", 0).status().running_steps, 0u);
}

TEST(RemoteSession, AnErrorNamesTaskNodeAndCause) {
  test::LocalCluster cluster(1, 1);
  const Tensor three = ones({3, 2});
  const Tensor two = ones({2, 2});
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 2});
  const Tensor y = placeholder(kFloat32, {-1, 2});
  Tensor bad;
  {
    auto on = device("/job:ps/task:0");
    const NameScope scope("here");
    bad = x + y;
  }
  const Tensor used = neg(bad);
  Session session(cluster.target());
  const Status status = error_of([&] { session.run(used, {{x, three}, {y, two}}); });
  EXPECT_EQ(status.code, Code::InvalidArgument) << status.to_string();
  EXPECT_EQ(status.origin, "/job:ps/replica:0/task:0");
  EXPECT_FALSE(status.derived);
  for (const char* part : {"From /job:ps/replica:0/task:0", "here/", "(3, 2)", " on CPU:0"}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  }
  const std::string text = status.to_string();
  EXPECT_EQ(text.find(status.origin), text.rfind(status.origin)) << text;
}

TEST(RemoteSession, ALongErrorIsCutAndHarmsNothing) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = test::on_ps(
      [&] { return check_numerics(log(x), "too small" + std::string(1'000'000, '!')); });
  Session session(cluster.target());
  for (int i = 0; i < 3; ++i) {
    const Status status = error_of([&] { session.run(y, {{x, Tensor(-1.f)}}); });
    EXPECT_EQ(status.code, Code::InvalidArgument);
    EXPECT_EQ(status.origin, "/job:ps/replica:0/task:0");
    EXPECT_NE(status.message.find("too small"), std::string::npos);
    EXPECT_LE(status.message.size(), 4096u);
    EXPECT_EQ(session.run(y, {{x, Tensor(1.f)}}).to<float>(), 0);
  }
}

TEST(RemoteSession, AFailedRunLeavesTheSessionUsable) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1});
  const Tensor y = test::on_ps([&] { return x + constant({1.f, 2.f}); });
  const Tensor z = neg(y);
  Session session(cluster.target());
  for (int i = 0; i < 20; ++i) {
    EXPECT_ERROR(Code::InvalidArgument, "From /job:ps",
                 session.run(z, {{x, Tensor({1.f, 1.f, 1.f})}}));
    EXPECT_EQ(session.run(z, {{x, Tensor({1.f, 1.f})}}).to_vector<float>(),
              (std::vector<float>{-2, -3}));
  }
}

}  // namespace
}  // namespace cohort
