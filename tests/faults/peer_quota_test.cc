// Peers that have more under way on a task than they may.

#include <gtest/gtest.h>

#include <thread>

#include "cohort/cohort.h"
#include "cohort/graph_training.h"
#include "faults/faults.h"
#include "support/process_cluster.h"
#include "support/scoped_environment.h"

namespace cohort {
namespace {

constexpr int64_t kQuota = 1'000'000;

Tensor ones_of(size_t count) { return Tensor::from(std::vector<float>(count, 1.f)); }

class PeerQuota : public testing::TestWithParam<const char*> {
 protected:
  static Status status_of(const std::function<void()>& body) { return capture_status(body); }
  static void expect_refused(const Status& status, const std::string& peer,
                             const std::string& task) {
    EXPECT_EQ(status.code, Code::ResourceExhausted) << status.to_string();
    for (const std::string& part :
         {"[Server] " + peer, "under way on " + task, std::string("the limit is 1000000"),
          std::string("COHORT_PEER_BYTES")}) {
      EXPECT_NE(status.message.find(part), std::string::npos) << part << status.message;
    }
  }
  uint64_t running_steps() const { return server_status(tasks_.target("ps")).running_steps; }

  const ScopedEnvironment setting_{
      {{"COHORT_TRANSPORT", GetParam()}, {"COHORT_PEER_BYTES", std::to_string(kQuota)}}};
  test::ProcessCluster tasks_{COHORT_TEST_TASK, 1, 1};
  Graph graph_;
};

TEST_P(PeerQuota, FeedsThatAreTooLargeAreRefusedAndOthersGoOn) {
  const auto building = graph_.as_default();
  const auto on = device("/job:worker/task:0");
  const Tensor x = placeholder(kFloat32, {Shape::kUnknownDim});
  const Tensor y = sum(x);
  Session session(tasks_.target());
  EXPECT_EQ(session.run(y, {{x, ones_of(100'000)}}).to<float>(), 100'000.f);
  expect_refused(status_of([&] {
                   session.run(y, {{x, ones_of(300'000)}});
                 }),
                 "client", "/job:worker/replica:0/task:0");
  // What is over does not count any more.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(session.run(y, {{x, ones_of(200'000)}}).to<float>(), 200'000.f);
  }
}

TEST_P(PeerQuota, StepsUnderWayCountTogether) {
  const auto building = graph_.as_default();
  const auto on = device("/job:ps/task:0");
  FifoQueue queue({.components = {{kFloat32, {}}}, .name = "gate"});
  const Tensor x = placeholder(kFloat32, {100'000});
  const Tensor waits = sum(x) + queue.dequeue()[0];
  const Tensor open = queue.enqueue_many({zeros({2})});
  Session session(tasks_.target());
  const Tensor value = ones_of(100'000);
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (Status& status : statuses) {
    threads.emplace_back([&] { status = status_of([&] { session.run(waits, {{x, value}}); }); });
  }
  EXPECT_TRUE(test::eventually([&] { return running_steps() == 2; }));
  expect_refused(status_of([&] {
                   session.run(waits, {{x, value}});
                 }),
                 "client", "/job:worker/replica:0/task:0");
  session.run(open);
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.to_string();
}

TEST_P(PeerQuota, TensorsBetweenTasksCount) {
  const auto building = graph_.as_default();
  Tensor sent;
  {
    const auto on = device("/job:worker/task:0");
    const Tensor scale = placeholder_with_default(Tensor(1.f), {});
    sent = broadcast_to(scale, {300'000}) + 1.f;
  }
  const auto on = device("/job:ps/task:0");
  const Tensor total = sum(sent);
  Session session(tasks_.target());
  expect_refused(status_of([&] { session.run(total); }), "/job:worker/replica:0/task:0",
                 "/job:ps/replica:0/task:0");
}

INSTANTIATE_TEST_SUITE_P(Ways, PeerQuota, testing::Values("shared-memory", "grpc"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace cohort
