// What a worker keeps for a session, driven by messages.

#include <gtest/gtest.h>

#include <future>

#include "base/activity.h"
#include "cluster/master_step.h"
#include "cluster/worker.h"
#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "transport/direct_connection.h"

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
  request.fetches.push_back(impl->node_output(y));
  MasterPlan plan = make_master_plan(7, partition(*impl, devices, request), request, kWorker);
  EXPECT_EQ(plan.tasks.back().name, kWorker);
  plan.tasks.back().message.session = 1;
  return plan.tasks.back().message;
}

struct WorkerSessionTest : testing::Test {
  std::promise<PlanDone> told_;
  std::shared_ptr<DirectConnection> master_;
  Link::Pointer link_;
  RegisterPlan message_ = plan_of_worker();
  std::shared_ptr<WorkerSession> session_;

  WorkerSessionTest() {
    const auto [ours, theirs] = connect_directly({.name = kWorker}, {.name = "master"});
    master_ = theirs;
    master_->start({[this](const Message& message) { told_.set_value(decode<PlanDone>(message)); },
                    [](const Status&) {}});
    link_ = Link::start(ours, kWorker,
                        {.received = [](const Link::Pointer&, const Message&) {},
                         .ended = [](const Link::Pointer&, const Status&) {}});
    const auto state = std::make_shared<DeviceState>();
    session_ = std::make_shared<WorkerSession>(1, link_, state, kWorker);
    session_->add(make_worker_plan(message_, state, {}, kWorker, "master"));
  }
  ~WorkerSessionTest() override {
    master_->close({.code = Code::Cancelled, .message = "the test is over"});
  }

  PlanDone await_answer() {
    std::future<PlanDone> answer = told_.get_future();
    if (answer.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      return {.status = {.code = Code::Unknown, .message = "no answer came"}};
    }
    return answer.get();
  }
  StepTensors tensors_of(uint64_t step) const {
    return {.session = 1, .plan = 7, .step = step, .edges = {0}, .tensors = {Tensor(2.f)}};
  }
};

TEST_F(WorkerSessionTest, ALostTaskEndsTheStepsThatWaitForItsTensors) {
  EXPECT_EQ(message_.sources, std::vector<std::string>{kPs});
  session_->run({.session = 1, .plan = 7, .step = 1});
  session_->lost("/job:ps/replica:0/task:1", {.code = Code::Unavailable, .message = "another"});
  EXPECT_EQ(session_->num_running(), 1u);
  session_->lost(kPs, {.code = Code::Unavailable, .message = "cut"});
  const Status status = await_answer().status;
  EXPECT_EQ(status.code, Code::Unavailable);
  EXPECT_FALSE(status.derived);
  EXPECT_NE(status.message.find(kPs), std::string::npos) << status.message;
}

TEST_F(WorkerSessionTest, CountsTheStepsThatItRunsInTheActivityOfTheProcess) {
  const uint64_t before = local_activity().steps;
  session_->arrive(tensors_of(5));
  EXPECT_EQ(local_activity().steps, before) << "the master has not started the step";
  session_->run({.session = 1, .plan = 7, .step = 5});
  EXPECT_TRUE(await_answer().status.ok());
  EXPECT_EQ(local_activity().steps, before + 1);
}

TEST_F(WorkerSessionTest, TensorsMayComeBeforeTheirStep) {
  session_->arrive(tensors_of(1));
  session_->run({.session = 1, .plan = 7, .step = 1});
  const PlanDone done = await_answer();
  ASSERT_TRUE(done.status.ok()) << done.status.to_string();
  EXPECT_EQ(done.fetches.at(0).to<float>(), -2);
}

TEST_F(WorkerSessionTest, APeerCannotFillTheMemoryWithStepsThatNobodyRuns) {
  const Status status = error_of([&] {
    for (uint64_t step = 1; step <= 100'000; ++step) session_->arrive(tensors_of(step));
  });
  EXPECT_EQ(status.code, Code::ResourceExhausted);
  EXPECT_LE(session_->num_running(), 4096u);
}

// An endpoint that connects to a stand-in for any task, and calls `meanwhile` first.
class StandInEndpoint : public Endpoint {
 public:
  explicit StandInEndpoint(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}
  std::shared_ptr<Connection> connect(const std::string&, Deadline, uint64_t,
                                      const std::function<bool()>&) override {
    meanwhile_();
    auto [ours, theirs] = connect_directly(self_, {.name = kPs});
    theirs->start({[](const Message&) {}, [](const Status&) {}});
    tasks_.push_back(std::move(theirs));
    return ours;
  }
  const Peer& self() const override { return self_; }
  void stop() override {}

 private:
  const Peer self_{.name = kWorker};
  const std::function<void()> meanwhile_;
  std::vector<std::shared_ptr<Connection>> tasks_;
};

TEST_F(WorkerSessionTest, ThatIsClosedWhileItsFirstPlanWaitsForAPeerLeavesNothing) {
  const auto peers =
      std::make_shared<Peers>(ClusterSpec{{"ps", {"localhost:1"}}, {"worker", {"localhost:2"}}},
                              kWorker, HeartbeatOptions{},
                              Link::Events{.received = [](const Link::Pointer&, const Message&) {},
                                           .ended = [](const Link::Pointer&, const Status&) {}},
                              [](const Link::Pointer&) { return std::nullopt; });
  Worker worker(peers);
  peers->start(std::make_shared<StandInEndpoint>([&] { worker.close_session(link_, 1); }),
               [] { return nullptr; });
  message_.peers.push_back({.name = kPs, .incarnation = 0});
  message_.limit = std::chrono::seconds(60);
  const Status status = error_of([&] { worker.register_plan(link_, message_); });
  EXPECT_EQ(status.code, Code::Cancelled) << status.to_string();
  ServerStatus left;
  worker.describe(left);
  EXPECT_EQ(left.worker_sessions, 0u);
  EXPECT_EQ(left.plans, 0u);
  peers->stop();
}

}  // namespace
}  // namespace cohort::internal
