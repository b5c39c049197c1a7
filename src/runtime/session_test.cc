#include "cohort/session.h"

#include <gtest/gtest.h>

#include <thread>

#include "cohort/cohort.h"
#include "support/expect_error.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

Code code_of(const std::function<void()>& body, std::string* message = nullptr) {
  const Status status = capture_status(body);
  if (message != nullptr) *message = status.message;
  return status.code;
}

TEST(Session, RunsWhatIsFetchedFromWhatIsFed) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 2});
  const Tensor y = matmul(x, ones({2, 4})) + 1.f;
  Session session;
  EXPECT_EQ(session.run(y, {{x, Tensor({{1.f, 2.f}})}}).to_string(),
            "Tensor([[4. 4. 4. 4.]], shape=(1, 4), dtype=float32)");
  EXPECT_EQ(session.run(y, {{x, Tensor({{1.f, 1.f}, {1.f, 1.f}, {1.f, 1.f}})}}).shape(),
            (Shape{3, 4}));
}

TEST(Session, FetchesInTheOrderAskedForAndTheSameTwice) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor a = constant(1.f);
  const Tensor b = a + 1.f;
  Session session;
  const std::vector<Tensor> values = session.run({b, a, b});
  EXPECT_EQ(values[0].to<float>(), 2.f);
  EXPECT_EQ(values[1].to<float>(), 1.f);
  EXPECT_EQ(values[2].to<float>(), 2.f);
  const auto named = session.run(std::map<std::string, Tensor>{{"b", b}, {"a", a}});
  EXPECT_EQ(named.at("a").to<float>(), 1.f);
}

TEST(Session, FeedsAnyTensorAndFetchesAFedOne) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor middle = x * 2.f;
  const Tensor y = middle + 1.f;
  Session session;
  const std::vector<Tensor> values = session.run({y, middle}, {{middle, Tensor(10.f)}});
  EXPECT_EQ(values[0].to<float>(), 11.f);
  EXPECT_EQ(values[1].to<float>(), 10.f);
}

TEST(Session, NamesAPlaceholderThatWasNotFed) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {2}, "input");
  const Tensor y = x + 1.f;
  Session session;
  std::string message;
  EXPECT_EQ(code_of([&] { session.run(y); }, &message), Code::InvalidArgument);
  EXPECT_NE(message.find("'input'"), std::string::npos) << message;
}

TEST(Session, RefusesWrongFeeds) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 2}, "x");
  const Tensor y = x + 1.f;
  Session session;
  const Tensor good({{1.f, 2.f}});
  EXPECT_EQ(code_of([&] { session.run(y, {{x, Tensor({{1, 2}})}}); }), Code::InvalidArgument);
  EXPECT_EQ(code_of([&] {
              session.run(y, {{x, Tensor({{1.f, 1.f, 1.f}})}});
            }),
            Code::InvalidArgument);
  EXPECT_EQ(code_of([&] { session.run(y, {{x, good}, {x, good}}); }), Code::InvalidArgument);
  EXPECT_EQ(code_of([&] { session.run(y, {{good, good}}); }), Code::InvalidArgument);
  Graph other;
  Tensor foreign;
  {
    auto inside = other.as_default();
    foreign = constant(1.f);
  }
  EXPECT_EQ(code_of([&] { session.run(foreign); }), Code::InvalidArgument);
}

TEST(Session, KeepsVariablesBetweenRunsAndNotBetweenSessions) {
  Graph graph;
  auto building = graph.as_default();
  Variable w(1.f, {.name = "w"});
  const Tensor bump = w.assign_add(2.f);
  const Tensor read = w.read_value();
  const Tensor init = global_variables_initializer();
  Session session;
  std::string message;
  EXPECT_EQ(code_of([&] { session.run(read); }, &message), Code::FailedPrecondition);
  EXPECT_NE(message.find("'w'"), std::string::npos) << message;
  session.run(init);
  session.run(bump);
  EXPECT_EQ(session.run(read).to<float>(), 3.f);
  Session other;
  EXPECT_EQ(code_of([&] { other.run(read); }), Code::FailedPrecondition);
}

TEST(Session, SeesNodesThatAreAddedBetweenRuns) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor a = constant(2.f);
  Session session;
  EXPECT_EQ(session.run(a).to<float>(), 2.f);
  const Tensor b = a * 3.f;
  EXPECT_EQ(session.run(b).to<float>(), 6.f);
}

TEST(Session, AConstantOfWhatIsComputedIsThat) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor sum = constant(zeros({2}) + 1.f) + 1.f;  // zeros() is a node here
  Session session;
  EXPECT_EQ(session.run(sum).to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Session, CallsBySignature) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = x * 2.f;
  Session session;
  const Callable twice = session.make_callable({x}, {y});
  EXPECT_EQ(twice({Tensor(4.f)})[0].to<float>(), 8.f);
  EXPECT_EQ(code_of([&] { twice({}); }), Code::InvalidArgument);
}

TEST(Session, RefusesToRunWhenClosed) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor a = constant(2.f);
  Session session;
  session.close();
  std::string message;
  EXPECT_EQ(code_of([&] { session.run(a); }, &message), Code::FailedPrecondition);
  EXPECT_NE(message.find("closed"), std::string::npos);
}

// A loop that never ends.
Tensor endless() {
  return while_loop(
      [](std::span<const Tensor>) { return constant(true); },
      [](std::span<const Tensor> state) { return std::vector<Tensor>{state[0] + 1.f}; },
      {constant(0.f)})[0];
}

TEST(Session, EndsARunAtItsDeadline) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor forever = endless();
  Session session;
  EXPECT_EQ(code_of([&] { session.run(forever, {}, {.timeout = std::chrono::milliseconds(50)}); }),
            Code::DeadlineExceeded);
}

TEST(Session, CloseEndsRunsUnderWayAsCancelled) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor forever = endless();
  const Tensor quick = constant(1.f);
  Session session;
  Code code = Code::Ok;
  std::thread runner([&] { code = code_of([&] { session.run(forever); }); });
  session.run(quick);
  session.close();
  runner.join();
  EXPECT_TRUE(code == Code::Cancelled || code == Code::FailedPrecondition) << code;
}

TEST(Session, TellsTheMissingTargetWhenADeviceIsElsewhere) {
  Graph graph;
  auto building = graph.as_default();
  Tensor w;
  {
    auto on = device("/job:ps/task:0");
    w = get_variable("w", {.shape = {2, 4}, .initializer = ones()});
  }
  Session session;
  std::string message;
  EXPECT_EQ(code_of([&] { session.run(w); }, &message), Code::InvalidArgument);
  EXPECT_NE(message.find("'w'"), std::string::npos) << message;
  EXPECT_NE(message.find("/job:ps/task:0"), std::string::npos) << message;
  EXPECT_NE(message.find("/job:localhost/replica:0/task:0/device:CPU:0"), std::string::npos);
  EXPECT_NE(message.find("grpc://"), std::string::npos) << message;
}

TEST(Session, RunsPartsOnSeveralDevices) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  Tensor there;
  {
    auto on = device("CPU:1");
    there = x * 3.f;
  }
  Tensor back;
  {
    auto on = device("CPU:0");
    back = there + x;
  }
  Session session;
  RunMetadata metadata;
  EXPECT_EQ(session.run(back, {{x, Tensor(2.f)}}, {.trace = true}, &metadata).to<float>(), 8.f);
  std::set<std::string> devices;
  for (const NodeTiming& node : metadata.nodes) devices.insert(node.device);
  EXPECT_EQ(devices.size(), 2u);
  EXPECT_NE(metadata.to_chrome_trace().find("\"traceEvents\""), std::string::npos);
}

TEST(Session, NamesTheNodeThatFailsAndWhereItWasMade) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1});
  const Tensor y = add(x, ones({3}));
  Session session;
  std::string message;
  EXPECT_EQ(code_of(
                [&] {
                  session.run(y, {{x, Tensor({1.f, 1.f})}});
                },
                &message),
            Code::InvalidArgument);
  EXPECT_NE(message.find("node 'Add'"), std::string::npos) << message;
  EXPECT_NE(message.find("session_test.cc:"), std::string::npos) << message;
}

TEST(Session, RunsInManyThreadsAtOnce) {
  Graph graph;
  auto building = graph.as_default();
  Variable w(0.f, {.name = "w"});
  const Tensor bump = w.assign_add(1.f);
  const Tensor read = w.read_value();
  Session session;
  session.run(global_variables_initializer());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) session.run(bump);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(session.run(read).to<float>(), 200.f);
}

TEST(Session, TrainsWithMinimize) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1, 1});
  const Tensor y = placeholder(kFloat32, {-1, 1});
  Variable w = get_variable("w", {.shape = {1, 1}, .initializer = zeros()});
  const Tensor loss = mean(square(matmul(x, w) - y));
  optim::Sgd optimizer({.learning_rate = 0.1});
  const Tensor train = optimizer.minimize(loss, {}, global_step());
  Session session;
  session.run(global_variables_initializer());
  for (int i = 0; i < 50; ++i) {
    session.run(train, {{x, Tensor({{1.f}, {2.f}})}, {y, Tensor({{3.f}, {6.f}})}});
  }
  EXPECT_NEAR(session.run(w.read_value()).to<float>(), 3.f, 1e-4);
  EXPECT_EQ(session.run(global_step().read_value()).to<int64_t>(), 50);
}

TEST(Session, TrainsWithAnOptimizerThatIsOlderThanTheGraph) {
  optim::Adam optimizer({.learning_rate = 0.1});
  Graph graph;
  auto building = graph.as_default();
  Variable w = get_variable("w", {.shape = {}, .initializer = zeros()});
  const Tensor train = optimizer.minimize(square(w - 1.f));
  EXPECT_FALSE(Graph::deserialize(graph.serialize()).nodes().empty());
  Session session;
  session.run(global_variables_initializer());
  for (int i = 0; i < 3; ++i) session.run(train);
  EXPECT_EQ(session.run(optimizer.iterations().read_value()).to<int64_t>(), 3);
}

// Slots are made behind the rate, which reads the count: their first values must not wait for it.
TEST(Session, InitialisesTheSlotsOfAnOptimizerWithASchedule) {
  Graph graph;
  auto building = graph.as_default();
  Variable w = get_variable("w", {.shape = {}, .initializer = zeros()});
  optim::Adam optimizer({.learning_rate = optim::exponential_decay({.initial_rate = 0.1})});
  const Tensor train = optimizer.minimize(square(w - 1.f));
  Session session;
  session.run(global_variables_initializer());
  session.run(train);
  EXPECT_EQ(session.run(optimizer.iterations()).to<int64_t>(), 1);
}

TEST(GraphGradients, TakeSourcesInBraces) {
  Graph graph;
  auto building = graph.as_default();
  const Variable w(2.0), b(3.0);
  const Tensor y = w * w + b;
  Session session;
  session.run(global_variables_initializer());
  EXPECT_EQ(session.run(gradients({y}, {w, b})[0].dense()).to<double>(), 4);
  EXPECT_EQ(gradients({y}, {w}).size(), 1u);
  EXPECT_EQ(gradients({y}, {b}, {.unconnected = Unconnected::Zero}).size(), 1u);
  const Tensor x = y * 1.0;
  EXPECT_EQ(session.run(gradients({x * x}, {x, y})[1].dense()).to<double>(), 14);
}

TEST(ControlFlow, CondRunsOneBranchAndHasAGradient) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = cond(
      x > 0.f, [&] { return x * x; }, [&] { return x * 3.f; });
  const Gradients slope = gradients({y}, std::vector<Tensor>{x});
  Session session;
  EXPECT_EQ(session.run(y, {{x, Tensor(4.f)}}).to<float>(), 16.f);
  EXPECT_EQ(session.run(y, {{x, Tensor(-4.f)}}).to<float>(), -12.f);
  EXPECT_EQ(session.run(slope[0].dense(), {{x, Tensor(4.f)}}).to<float>(), 8.f);
  EXPECT_EQ(session.run(slope[0].dense(), {{x, Tensor(-4.f)}}).to<float>(), 3.f);
}

TEST(ControlFlow, WhileLoopEndsAfterItsMaximumOfIterations) {
  const auto count = [](const WhileOptions& options) {
    return while_loop([](std::span<const Tensor> now) { return now[0] < 9; },
                      [](std::span<const Tensor> now) { return std::vector<Tensor>{now[0] + 1}; },
                      {constant(Tensor(0))}, options)[0];
  };
  const auto counts = [&](const auto& value) {
    EXPECT_EQ(value(count({})), 9);
    EXPECT_EQ(value(count({.maximum_iterations = 4})), 4);
    EXPECT_EQ(value(count({.maximum_iterations = 0})), 0);
    EXPECT_ERROR(Code::InvalidArgument,
                 "maximum_iterations must be 0 or more, got -1; leave it empty for no limit",
                 count({.maximum_iterations = -1}));
  };
  counts([](const Tensor& now) { return now.to<int>(); });
  Graph graph;
  auto building = graph.as_default();
  counts([](const Tensor& last) { return Session().run(last).to<int>(); });
}

TEST(ControlFlow, WhileLoopRunsAndHasAGradient) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const std::vector<Tensor> state =
      while_loop([](std::span<const Tensor> now) { return now[0] < 3; },
                 [&](std::span<const Tensor> now) {
                   return std::vector<Tensor>{now[0] + 1, now[1] * x};
                 },
                 {constant(0), constant(1.f)});
  const Gradients slope = gradients({state[1]}, std::vector<Tensor>{x});
  Session session;
  EXPECT_EQ(session.run(state[1], {{x, Tensor(2.f)}}).to<float>(), 8.f);
  EXPECT_EQ(session.run(slope[0].dense(), {{x, Tensor(2.f)}}).to<float>(), 12.f);
}

}  // namespace
}  // namespace cohort
