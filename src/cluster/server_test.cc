#include "cohort/server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/on_ps.h"

namespace cohort {
namespace {

TEST(Server, ALocalOneIsAClusterOfOneTask) {
  Server server = Server::create_local_server();
  EXPECT_EQ(server.server_def().job_name, "localhost");
  EXPECT_EQ(server.server_def().task_index, 0);
  EXPECT_TRUE(server.target().starts_with("grpc://localhost:")) << server.target();
  EXPECT_FALSE(server.target().ends_with(":0"));
  Graph graph;
  auto building = graph.as_default();
  Session session(server.target());
  EXPECT_EQ(session.run(neg(constant(2.f))).to<float>(), -2);
}

TEST(Server, SaysWhatIsWrongWithItsDefinition) {
  const ClusterSpec two({{"ps", {"localhost:0"}}, {"worker", {"localhost:0", "localhost:0"}}});
  EXPECT_ERROR(Code::InvalidArgument, "job_name", Server(two));
  EXPECT_ERROR(Code::InvalidArgument, "task_index", Server(two, {.job_name = "worker"}));
  EXPECT_ERROR(Code::InvalidArgument, "7", Server(two, {.job_name = "worker", .task_index = 7}));
  EXPECT_ERROR(Code::Internal, "chief", Server(two, {.job_name = "chief", .task_index = 0}));
  EXPECT_ERROR(Code::InvalidArgument, "port", Server(ClusterSpec{{"a", {"localhost"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "port", Server(ClusterSpec{{"a", {"localhost:abc"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "port", Server(ClusterSpec{{"a", {"localhost:70000"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "the job 'a b'",
               Server(ClusterSpec{{"a b", {"localhost:0"}}}));
  EXPECT_ERROR(Code::InvalidArgument, "session.timeout must not be negative, got -1 ms; leave",
               Server(ClusterSpec{{"a", {"localhost:0"}}}, {},
                      {.session = {.timeout = std::chrono::milliseconds(-1)}}));
  EXPECT_ERROR(Code::InvalidArgument, "protocol",
               Server(ClusterSpec{{"a", {"localhost:0"}}}, {.protocol = "http"}));
  EXPECT_ERROR(Code::Unimplemented, "libopenmpi-dev",
               Server(ClusterSpec{{"a", {"localhost:0"}}}, {.protocol = "grpc+verbs"}));
}

TEST(Server, OfASparseJobIsItsOnlyTask) {
  Server server(ClusterSpec{{"worker", {{5, "localhost:0"}}}});
  EXPECT_EQ(server.server_def().task_index, 5);
  EXPECT_EQ(server.status().task, "/job:worker/replica:0/task:5");
}

TEST(Server, ASecondOneAtAPortFails) {
  const ClusterSpec spec{{"a", {test::free_addresses(1)[0]}}};
  Server first(spec);
  EXPECT_ERROR(Code::Unknown, "is in use by process " + std::to_string(getpid()), Server(spec));
}

TEST(Server, IsADefinitionWithWhatIsGivenInstead) {
  const ClusterSpec spec{{"ps", {"localhost:0"}}, {"worker", {{2, "localhost:0"}, {5, "h:1"}}}};
  const ServerDef def{spec, "worker", 5, "http"};
  Server server(def, {.task_index = 2, .protocol = "grpc"});
  EXPECT_EQ(server.server_def().job_name, "worker");
  EXPECT_EQ(server.server_def().task_index, 2);
  // The port that was chosen stands in the server's own view, and nothing else has changed.
  EXPECT_EQ("grpc://" + server.server_def().cluster.task_address("worker", 2), server.target());
  EXPECT_FALSE(server.target().ends_with(":0"));
  EXPECT_EQ(server.server_def().cluster.task_address("worker", 5), "h:1");
  EXPECT_EQ(server.server_def().cluster.task_address("ps", 0), "localhost:0");
}

TEST(Server, ListensBeyondLoopbackOnlyWhenToldInSoManyWords) {
  for (const char* own : {"0.0.0.0:0", "10.1.2.3:0", "no-such-host.invalid:0"}) {
    EXPECT_ERROR(Code::FailedPrecondition, "Credentials::insecure",
                 Server(ClusterSpec{{"a", {own}}}));
  }
  const ClusterSpec everywhere{{"a", {"0.0.0.0:0"}}};
  Server insecure(everywhere, {}, {.credentials = {.insecure = true}});
  EXPECT_EQ(insecure.status().task, "/job:a/replica:0/task:0");
}

TEST(Server, StoppingFreesThePort) {
  const ClusterSpec spec{{"a", {test::free_addresses(1)[0]}}};
  for (int i = 0; i < 3; ++i) {
    Server server(spec);
    server.stop();
    server.stop();
    EXPECT_ERROR(Code::FailedPrecondition, "stopped", server.start());
    Server again(spec);
    again.start();
  }
}

TEST(Server, StartsWhenToldTo) {
  const ClusterSpec spec{{"a", {test::free_addresses(1)[0]}}};
  Server server(spec, {}, {.start = false});
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = constant(1.f);
  EXPECT_ERROR(Code::Unavailable, "",
               Session(server.target(), {.timeout = std::chrono::milliseconds(50)}));
  server.start();
  Session session(server.target());
  EXPECT_EQ(session.run(x).to<float>(), 1);
}

TEST(Server, StartingTwiceIsHarmlessAndJoiningAStoppedOneReturns) {
  Server server = Server::create_local_server();
  const std::string target = server.target();
  server.start();
  EXPECT_EQ(server.target(), target);
  server.stop();
  server.join();
  EXPECT_EQ(server.target(), target);
  EXPECT_TRUE(server.status().devices.empty());
  Server never = Server::create_local_server({.start = false});
  EXPECT_EQ(never.target(), "grpc://localhost:0");
  never.stop();
  never.join();
  EXPECT_ERROR(Code::FailedPrecondition, "stopped", never.start());
}

TEST(Server, JoinEndsWhenItIsStopped) {
  Server server = Server::create_local_server();
  auto joined = std::async(std::launch::async, [&] { server.join(); });
  EXPECT_EQ(joined.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  server.stop();
  EXPECT_EQ(joined.wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

// Waits until the process has a handler for the signal.
void await_handler_of(int number) {
  struct sigaction now = {};
  while (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) {
    std::this_thread::yield();
  }
}

// The program did not close the session, so it may recover from the lost task and try again.
TEST(Server, ThatIsStoppedIsLostForRunsUnderWay) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor got = test::never_on_ps();
  Session session(cluster.target());
  auto run = std::async(std::launch::async, [&] { return error_of([&] { session.run(got); }); });
  while (cluster.server("ps", 0).status().running_steps == 0) std::this_thread::yield();
  cluster.server("worker", 0).stop();
  const Status end = run.get();
  EXPECT_EQ(end.code, Code::Unavailable) << end;
  EXPECT_NE(end.message.find("/job:worker/replica:0/task:0 was stopped"), std::string::npos) << end;
}

TEST(ServerDeathTest, JoinEndsBySigterm) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Server server = Server::create_local_server();
        std::thread killer([] {
          await_handler_of(SIGTERM);
          raise(SIGTERM);
        });
        server.join();
        killer.join();
        // The signal was for those who waited then.
        Server next = Server::create_local_server();
        auto joined = std::async(std::launch::async, [&] { next.join(); });
        if (joined.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready)
          std::exit(1);
        next.stop();
        joined.get();
        std::exit(7);
      },
      testing::ExitedWithCode(7), "");
}

TEST(Server, TellsItsStatus) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = test::on_ps([&] { return neg(constant(1.f)); });
  const Tensor y = neg(x);
  Session session(cluster.target());
  for (int i = 0; i < 3; ++i) session.run(y);
  const ServerStatus worker = server_status(cluster.target());
  EXPECT_EQ(worker.task, "/job:worker/replica:0/task:0");
  ASSERT_EQ(worker.sessions.size(), 1u);
  EXPECT_EQ(worker.sessions[0].steps, 3u);
  EXPECT_NE(worker.sessions[0].client.find("client"), std::string::npos);
  EXPECT_EQ(worker.plans, 1u);
  EXPECT_EQ(worker.devices[0], "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(worker.running_steps, 0u);
  const ServerStatus ps = cluster.server("ps", 0).status();
  EXPECT_EQ(ps.sessions.size(), 0u);
  EXPECT_EQ(ps.worker_sessions, 1u);
  EXPECT_EQ(ps.plans, 1u);
  ASSERT_EQ(ps.peers.size(), 1u);
  EXPECT_EQ(ps.peers[0].name, "/job:worker/replica:0/task:0");
  EXPECT_FALSE(ps.peers[0].transport.empty());
  EXPECT_GE(ps.peers[0].messages_received, 3u);
  EXPECT_GE(ps.peers[0].messages_sent, 3u);
  const auto sent = ps.peers[0].bytes_sent;
  const auto received = ps.peers[0].bytes_received;
  session.run(y);
  const ServerStatus later = cluster.server("ps", 0).status();
  EXPECT_GT(later.peers[0].bytes_received, received);
  EXPECT_GT(later.peers[0].bytes_sent, sent);
  session.close();
  EXPECT_TRUE(server_status(cluster.target()).sessions.empty());
  // The master tells the other tasks and does not wait for them.
  while (cluster.server("ps", 0).status().worker_sessions > 0) std::this_thread::yield();
  EXPECT_EQ(cluster.server("ps", 0).status().plans, 0u);
}

TEST(Server, IsAskedAtItsTargetOnly) {
  for (const char* target : {"local", "http://localhost:1", "grpc+verbs://localhost:1", ""}) {
    EXPECT_ERROR(Code::NotFound, "target", server_status(target));
    EXPECT_ERROR(Code::NotFound, "target", reset(target));
  }
}

}  // namespace
}  // namespace cohort
