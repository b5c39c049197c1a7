// What a session on a server promises, whatever its graph computes.

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/on_ps.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

TEST(RemoteSession, NobodyListensThere) {
  const std::string address = test::free_addresses(1)[0];
  const Graph graph;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_ERROR(Code::Unavailable, address, Session(graph, address, {.timeout = milliseconds(100)}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(RemoteSession, AServerThatIsNotThereIsToldWhileItIsWaitedFor) {
  const std::string address = test::free_addresses(1)[0];
  testing::internal::CaptureStderr();
  (void)error_of([&] { Session(Graph(), address, {.timeout = milliseconds(4500)}); });
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("still trying to reach " + address + ": [Connect] nobody listens"),
            std::string::npos)
      << told;
}

TEST(RemoteSession, AnEmptyGraphDoesNotRun) {
  test::LocalCluster cluster(0, 1);
  Graph graph;
  auto building = graph.as_default();
  Session session(cluster.target());
  EXPECT_ERROR(Code::FailedPrecondition, "no nodes", session.run(std::vector<Tensor>{}));
}

TEST(RemoteSession, FetchesComeInTheOrderAskedForAndMayBeFed) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = test::on_ps([&] { return x * 2.f; });
  const Tensor z = y + 1.f;
  Session session(cluster.target());
  const std::vector<Tensor> all = session.run({z, x, y, z}, {{x, Tensor(3.f)}});
  EXPECT_EQ(all[0].to<float>(), 7);
  EXPECT_EQ(all[1].to<float>(), 3);
  EXPECT_EQ(all[2].to<float>(), 6);
  EXPECT_EQ(all[3].to<float>(), 7);
  EXPECT_EQ(session.run({z, y}, {{y, Tensor(10.f)}})[0].to<float>(), 11);
  EXPECT_TRUE(session.run(std::vector<Tensor>{}, {{x, Tensor(1.f)}}).empty());
}

TEST(RemoteSession, TheOrderOfFeedsAndFetchesMakesNoOtherSignature) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = placeholder(kFloat32, {});
  Tensor minus, half;
  {
    auto on = device("/job:ps/task:0");
    minus = x - y;
    half = x / y;
  }
  Session session(cluster.target());
  const auto plans = [&] { return cluster.server("ps", 0).status().plans; };
  const Feeds feeds{{x, Tensor(4.f)}, {y, Tensor(8.f)}}, turned{{y, Tensor(8.f)}, {x, Tensor(4.f)}};
  EXPECT_EQ(session.run(minus, feeds).to<float>(), -4);
  EXPECT_EQ(session.run(minus, turned).to<float>(), -4);
  EXPECT_EQ(session.run({minus, minus}, turned)[1].to<float>(), -4);
  EXPECT_EQ(plans(), 1u);
  for (const Feeds& fed : {feeds, turned}) {
    EXPECT_EQ(session.run({minus, half}, fed)[1].to<float>(), 0.5);
    const std::vector<Tensor> three = session.run({half, minus, half}, fed);
    EXPECT_EQ(three[0].to<float>(), 0.5);
    EXPECT_EQ(three[1].to<float>(), -4);
    EXPECT_EQ(three[2].to<float>(), 0.5);
  }
  EXPECT_EQ(plans(), 2u);
}

TEST(RemoteSession, FeedsAreCheckedBeforeAnythingIsSent) {
  test::LocalCluster cluster(0, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {2});
  const Tensor y = neg(x);
  Session session(cluster.target());
  const Tensor good({1.f, 2.f});
  EXPECT_ERROR(Code::InvalidArgument, "float32", session.run(y, {{x, Tensor({1, 2})}}));
  EXPECT_ERROR(Code::InvalidArgument, "shape", session.run(y, {{x, Tensor(1.f)}}));
  EXPECT_ERROR(Code::InvalidArgument, "twice", session.run(y, {{x, good}, {x, good}}));
  Graph other;
  auto elsewhere = other.as_default();
  const Tensor stranger = constant(1.f);
  EXPECT_ERROR(Code::InvalidArgument, "", session.run(stranger));
}

TEST(RemoteSession, EveryDtypeTravelsEvenWithoutElements) {
  test::LocalCluster cluster(1, 1);
  for (const DType dtype :
       {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt16, kInt32, kInt64, kUInt8, kBool}) {
    for (const Shape& shape : {Shape{2, 0, 3}, Shape{2, 1, 3}}) {
      const Tensor value = ones(shape, dtype);
      Graph graph;
      auto building = graph.as_default();
      const Tensor x = placeholder(dtype, {2, -1, 3});
      const Tensor y = test::on_ps([&] { return identity(x); });
      Session session(cluster.target());
      const Tensor result = session.run(y, {{x, value}});
      EXPECT_EQ(result.dtype(), dtype);
      EXPECT_EQ(result.shape(), shape);
    }
  }
  const std::vector<std::string> texts{std::string("a\0b", 3), ""};
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kString, {2});
  const Tensor y = test::on_ps([&] { return identity(x); });
  Session session(cluster.target());
  EXPECT_EQ(session.run(y, {{x, Tensor::from(texts)}}).to_vector<std::string>(), texts);
}

TEST(RemoteSession, TheGraphMayGrow) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = test::on_ps(
      [&]() -> Tensor { return get_variable("x", {.shape = {}, .initializer = ones()}); });
  Session session(cluster.target());
  session.run(global_variables_initializer());
  Tensor sum = x;
  for (int i = 0; i < 5; ++i) {
    sum = sum + cond(
                    sum > 0.f, [&] { return sum; }, [&] { return -sum; });
    EXPECT_EQ(session.run(sum).to<float>(), static_cast<float>(2 << i));
  }
}

TEST(RemoteSession, ManyThreadsRunAndExtendAtTheSameTime) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = test::on_ps([&] { return placeholder(kFloat32, {}); });
  Session session(cluster.target());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto also = graph.as_default();
      for (int i = 0; i < 10; ++i) {
        const Tensor y = x * static_cast<float>(t);
        for (int k = 0; k < 5; ++k) {
          const auto value = static_cast<float>(k);
          right +=
              session.run(y, {{x, Tensor(value)}}).to<float>() == value * static_cast<float>(t);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
}

TEST(RemoteSession, ACallableRunsByPosition) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = placeholder(kFloat32, {});
  const Tensor z = x - y;
  Session session(cluster.target());
  const Callable call = session.make_callable({y, x}, {z});
  EXPECT_EQ(call({Tensor(1.f), Tensor(5.f)})[0].to<float>(), 4);
  EXPECT_ERROR(Code::InvalidArgument, "takes 2 values", call({Tensor(1.f)}));
  session.close();
  EXPECT_ERROR(Code::FailedPrecondition, "closed", call({Tensor(1.f), Tensor(5.f)}));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.run(z));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.make_callable({y, x}, {z}));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.partial_run_setup({z}, {x, y}));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.list_devices());
  session.close();
}

TEST(RemoteSession, ListsTheDevicesOfAllTasks) {
  internal::ensure_cpu_devices(2);
  test::LocalCluster cluster(1, 1);
  const Graph graph;
  Session session(graph, cluster.target());
  EXPECT_EQ(session.list_devices(),
            (std::vector<std::string>{"/job:ps/replica:0/task:0/device:CPU:0",
                                      "/job:ps/replica:0/task:0/device:CPU:1",
                                      "/job:worker/replica:0/task:0/device:CPU:0",
                                      "/job:worker/replica:0/task:0/device:CPU:1"}));
}

TEST(RemoteSession, DevicesOfATaskExchangeTensorsToo) {
  internal::ensure_cpu_devices(2);
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  Tensor y = placeholder(kFloat32, {});
  const Tensor x = y;
  for (int i = 0; i < 3; ++i) {
    for (const char* place :
         {"/job:ps/task:0/device:CPU:0", "/job:ps/task:0/device:CPU:1", "/job:worker/task:0"}) {
      auto on = device(place);
      y = y + 1.f;
    }
  }
  Session session(cluster.target());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(session.run(y, {{x, Tensor(1.f)}}).to<float>(), 10);
  }
  {
    auto on = device("/job:ps/task:0/device:CPU:9");
    y = y + 1.f;
  }
  EXPECT_ERROR(Code::InvalidArgument, "device:CPU:9", session.run(y, {{x, Tensor(1.f)}}));
}

// What stays on a task keeps all its bits.
TEST(RemoteSession, FloatsMayTravelAsBfloat16) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {3});
  const Tensor d = placeholder(kFloat64, {});
  Tensor here, there, exact;
  {
    auto on = device("/job:ps/task:0");
    here = x + 0.f;
    exact = d + 0.0;
  }
  {
    auto on = device("/job:worker/task:0");
    there = here * 1.f;
    exact = exact * 1.0;
  }
  const Feeds feeds{{x, Tensor({1.f, 1.00001f, -3.14159f})}, {d, Tensor(1.00001)}};
  Session whole(cluster.target()), shorter(cluster.target(), {.enable_bfloat16_sendrecv = true});
  EXPECT_EQ(whole.run(there, feeds).to_vector<float>(),
            (std::vector<float>{1.f, 1.00001f, -3.14159f}));
  EXPECT_EQ(shorter.run(there, feeds).to_vector<float>(),
            (std::vector<float>{1.f, 1.f, -3.140625f}));
  EXPECT_EQ(shorter.run(here, feeds).to_vector<float>(),
            (std::vector<float>{1.f, 1.00001f, -3.14159f}));
  EXPECT_EQ(shorter.run(exact, feeds).to<double>(), 1.00001);
}

TEST(RemoteSession, SoftPlacementMovesWithinATask) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  Tensor y;
  {
    auto on = device("/job:ps/task:0/device:GPU:0");
    y = neg(constant(1.f)) + zeros({});
  }
  Session hard(cluster.target());
  EXPECT_ERROR(Code::InvalidArgument, "GPU:0", hard.run(y));
  Session soft(cluster.target(), {.allow_soft_placement = true});
  EXPECT_EQ(soft.run(y).to<float>(), -1);
}

TEST(RemoteSession, DeviceFiltersHideTasks) {
  test::LocalCluster cluster(1, 2);
  Graph graph;
  auto building = graph.as_default();
  Tensor x;
  {
    auto on = device("/job:worker/task:1");
    x = neg(constant(1.f));
  }
  Session all(cluster.target());
  EXPECT_EQ(all.run(x).to<float>(), -1);
  Session filtered(cluster.target(), {.device_filters = {"/job:ps"}});
  EXPECT_ERROR(Code::InvalidArgument, "/job:worker/task:1", filtered.run(x));
  EXPECT_EQ(filtered.list_devices().size(), all.list_devices().size() / 3 * 2);
  EXPECT_ERROR(Code::InvalidArgument, "nonsense",
               Session(cluster.target(), {.device_filters = {"nonsense"}}));
}

TEST(RemoteSession, ALimitEndsALongRun) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor got =
      test::on_ps([&] { return FifoQueue({.dtypes = {kFloat32}, .name = "never"}).dequeue()[0]; });
  const Tensor used = neg(got);
  Session session(cluster.target());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 100 ms",
               session.run(used, {}, {.timeout = milliseconds(100)}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(RemoteSession, ALimitNamesThoseWhoAreWaitedFor) {
  test::LocalCluster cluster(2, 1);
  Graph graph;
  auto building = graph.as_default();
  std::vector<Tensor> got;
  for (const char* place : {"/job:ps/task:0", "/job:ps/task:1"}) {
    auto on = device(place);
    got.push_back(FifoQueue({.dtypes = {kFloat32}, .name = "queue"}).dequeue()[0]);
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
    FifoQueue queue({.dtypes = {kFloat32}, .name = "later"});
    got = queue.dequeue()[0];
    put = queue.enqueue({constant(1.f)});
  }
  Session session(cluster.target());
  session.run(put);
  session.run(got);
  auto run = std::async(std::launch::async, [&] { return error_of([&] { session.run(got); }); });
  while (cluster.server("ps", 0).status().running_steps == 0) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  session.close();
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(1500));
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
  for (const char* part : {"From /job:ps/replica:0/task:0", "here/", "(3, 2)"}) {
    EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  }
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

TEST(RemoteSession, DrawsAreThoseOfALocalSession) {
  test::LocalCluster cluster(1, 1);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = random::uniform({3});
  Session local;
  Session remote(cluster.target());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(local.run(x).to_vector<float>(), remote.run(x).to_vector<float>());
  }
}

}  // namespace
}  // namespace cohort
