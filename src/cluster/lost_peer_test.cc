// A worker whose connection with another worker ends, while its master is there.

#include <gtest/gtest.h>

#include <future>

#include "cluster/master_plan.h"
#include "cluster/worker.h"
#include "cohort/cohort.h"
#include "transport/direct.h"

namespace cohort::internal {
namespace {

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:0";

// What the worker does in a run that takes a tensor from the ps.
RegisterPlan plan_of_worker() {
  Graph graph;
  auto building = graph.as_default();
  Tensor x;
  {
    auto on = device(std::string(kPs) + "/device:CPU:0");
    x = neg(placeholder_with_default(constant(1.f), {}));
  }
  auto on = device(std::string(kWorker) + "/device:CPU:0");
  const Tensor y = neg(x);
  const std::shared_ptr<GraphImpl> impl = graph_of(y);
  std::vector<DeviceName> devices;
  for (int id = 0; id < impl->size(); ++id) devices.push_back(impl->node(id).device);
  RunRequest request;
  request.fetches.push_back(impl->endpoint(y));
  MasterPlan plan = make_master_plan(7, partition(*impl, devices, request), request, kWorker);
  EXPECT_EQ(plan.tasks.back().name, kWorker);
  plan.tasks.back().message.session = 1;
  return plan.tasks.back().message;
}

TEST(LostPeer, EndsAStepThatWaitsForItsTensors) {
  std::promise<PlanDone> told;
  const auto [to_master, master] = connect_directly({.name = kWorker}, {.name = "master"});
  master->start({[&](const Message& message) { told.set_value(read_plan_done(message)); },
                 [](const Status&) {}});
  const Link::Pointer link = Link::start(to_master, kWorker,
                                         {.received = [](const Link::Pointer&, const Message&) {},
                                          .ended = [](const Link::Pointer&, const Status&) {}});
  const RegisterPlan message = plan_of_worker();
  EXPECT_EQ(message.sources, std::vector<std::string>{kPs});
  const auto state = std::make_shared<DeviceState>();
  const auto session = std::make_shared<WorkerSession>(1, link, state, kWorker);
  session->add(make_worker_plan(message, state, {}, kWorker, "master"));
  session->run({.session = 1, .plan = 7, .step = 1});
  session->lost("/job:ps/replica:0/task:1", {.code = Code::Unavailable, .message = "another"});
  EXPECT_EQ(session->num_running(), 1u);
  session->lost(kPs, {.code = Code::Unavailable, .message = "cut"});
  std::future<PlanDone> answer = told.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const Status status = answer.get().status;
  master->close({.code = Code::Cancelled, .message = "the test is over"});
  EXPECT_EQ(status.code, Code::Unavailable);
  EXPECT_FALSE(status.derived);
  EXPECT_NE(status.message.find(kPs), std::string::npos) << status.message;
}

}  // namespace
}  // namespace cohort::internal
