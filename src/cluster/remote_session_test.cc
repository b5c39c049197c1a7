// What a session on a server promises, whatever its graph computes.

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "support/local_cluster.h"
#include "support/on_ps.h"

namespace cohort {
namespace {

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
