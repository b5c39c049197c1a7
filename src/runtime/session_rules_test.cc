// Rules of sessions that are not about what a run computes.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/thread.h"
#include "cohort/cohort.h"
#include "cohort/queue.h"
#include "ops/op.h"
#include "ops/variable_cell.h"
#include "support/expect_error.h"
#include "support/find_op.h"
#include "tensor/devices.h"

namespace cohort {
namespace {

TEST(SessionTarget, AServersAddressNeedsNoScheme) {
  const Graph graph;
  const SessionOptions options{.timeout = std::chrono::seconds(1)};
  for (const char* target : {"grpc://localhost:1", "localhost:1"}) {
    EXPECT_ERROR(Code::Unavailable, "grpc://localhost:1", Session(graph, target, options));
  }
}

TEST(SessionTarget, AnythingElseIsServedByNobody) {
  const Graph graph;
  for (const char* target : {"local", "garbage", "http://localhost:1", "host:port",
                             "host:", ":2222", "grpc://", "grpc://host", "host:99999", "host:-1"}) {
    EXPECT_ERROR(Code::NotFound, target, Session(graph, target));
  }
}

TEST(SessionRules, NothingFetchedIsNothingReturned) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  Session session;
  EXPECT_TRUE(session.run(std::vector<Tensor>{}, {{x, Tensor(1.f)}}).empty());
}

TEST(SessionRules, AClosedSessionCompilesNothing) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = constant(1.f);
  Session session;
  const Callable made_before = session.make_callable({}, {x});
  session.close();
  session.close();
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.make_callable({}, {x}));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.run(x));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", made_before({}));
  EXPECT_ERROR(Code::FailedPrecondition, "closed", session.partial_run_setup({x}));
}

TEST(SessionRules, HandlesAreNeitherFedNorFetched) {
  Graph graph;
  auto building = graph.as_default();
  const Variable v = get_variable("v", {.shape = {2}});
  const Tensor handle = graph.tensor("v");
  Session session;
  EXPECT_ERROR(Code::InvalidArgument, "cannot be fetched", session.run(handle));
  EXPECT_ERROR(Code::InvalidArgument, "cannot be fed",
               session.run(v.read_value(), {{handle, handle}}));
}

TEST(SessionRules, TimeoutsAreNotNegativeAndZeroIsTheSameAsEmpty) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = constant(Tensor(1.f));
  Session session;
  constexpr std::chrono::milliseconds kBad(-1);
  EXPECT_ERROR(Code::InvalidArgument, "[Session] timeout must not be negative",
               Session("", {.timeout = kBad}));
  EXPECT_ERROR(Code::InvalidArgument, "leave it empty for that of the session",
               session.run(x, {}, {.timeout = kBad}));
  constexpr std::chrono::milliseconds kNone(0);
  EXPECT_EQ(Session("", {.timeout = kNone}).run(x, {}, {.timeout = kNone}).to<float>(), 1.f);
  const Tensor never = FifoQueue({.components = {{kFloat32}}}).dequeue()[0];
  Session limited("", {.timeout = std::chrono::milliseconds(20)});
  EXPECT_ERROR(Code::DeadlineExceeded, "", limited.run(never, {}, {.timeout = kNone}));
  // Added to now, this would overflow.
  constexpr auto kLongest = std::chrono::milliseconds::max();
  EXPECT_EQ(session.run(x, {}, {.timeout = kLongest}).to<float>(), 1.f);
  EXPECT_EQ(Session("", {.timeout = kLongest}).run(x).to<float>(), 1.f);
}

TEST(SessionRules, MetadataIsThatOfTheLastRun) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  const Tensor y = neg(x);
  Session session;
  RunMetadata metadata;
  for (int i = 0; i < 2; ++i) {
    session.run(y, {{x, Tensor(1.f)}}, {.trace = true}, &metadata);
    ASSERT_EQ(metadata.nodes.size(), 1u);
    EXPECT_EQ(metadata.nodes[0].op, "Neg");
    EXPECT_EQ(metadata.nodes[0].output_bytes, 4);
  }
}

TEST(SessionRules, ATraceIsJsonWhateverNodesAreCalled) {
  RunMetadata metadata;
  metadata.nodes.push_back({"a\\b", "Neg", "CPU:0", {}, {}, 4});
  EXPECT_NE(metadata.to_chrome_trace().find(R"("name":"a\\b")"), std::string::npos)
      << metadata.to_chrome_trace();
}

TEST(SessionRules, EveryDtypePassesThroughEvenWithoutElements) {
  for (const DType dtype :
       {kFloat16, kBFloat16, kFloat32, kFloat64, kInt8, kInt16, kInt32, kInt64, kUInt8, kBool}) {
    const Tensor value = zeros({2, 0, 3}, dtype);
    Graph graph;
    auto building = graph.as_default();
    const Tensor x = placeholder(dtype, {2, -1, 3});
    const Tensor y = identity(x);
    Session session;
    const Tensor result = session.run(y, {{x, value}});
    EXPECT_EQ(result.dtype(), dtype);
    EXPECT_EQ(result.shape(), (Shape{2, 0, 3}));
  }
  const std::vector<std::string> texts{std::string("a\0b", 3), ""};
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kString, {2});
  Session session;
  EXPECT_EQ(session.run(identity(x), {{x, Tensor::from(texts)}}).to_vector<std::string>(), texts);
}

TEST(SessionRules, ATensorThatArrivesOrdersToo) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  Tensor there;
  {
    auto on = device("CPU:1");
    there = x * 2.f;
  }
  auto on = device("CPU:0");
  const ControlDependencies after({there});
  const Tensor y = neg(there);
  Session session;
  RunMetadata metadata;
  EXPECT_EQ(session.run(y, {{x, Tensor(2.f)}}, {.trace = true}, &metadata).to<float>(), -4.f);
  int sends = 0;
  for (const NodeTiming& node : metadata.nodes) sends += node.op == "Send" ? 1 : 0;
  EXPECT_EQ(sends, 1);
}

int num_sends(Session& session, const std::vector<Tensor>& fetches, const Feeds& feeds) {
  RunMetadata metadata;
  session.run(fetches, feeds, {.trace = true}, &metadata);
  int sends = 0;
  for (const NodeTiming& node : metadata.nodes) sends += node.op == "Send" ? 1 : 0;
  return sends;
}

// However many nodes of a device want a value, or wait for a node, it is sent there once.
TEST(SessionRules, AValueIsSentToADeviceOnce) {
  internal::ensure_cpu_devices(3);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  Tensor source;
  {
    auto on = device("CPU:0");
    source = x * 2.f;
  }
  std::vector<Tensor> users, followers;
  for (const char* place : {"CPU:1", "CPU:1", "CPU:1", "CPU:2"}) {
    auto on = device(place);
    users.push_back(source + static_cast<float>(users.size()));
    const ControlDependencies after({source});
    followers.push_back(random::uniform({}));
  }
  Session session;
  const Feeds feeds{{x, Tensor(1.f)}};
  EXPECT_EQ(num_sends(session, users, feeds), 2);
  EXPECT_EQ(num_sends(session, followers, feeds), 2);
  users.insert(users.end(), followers.begin(), followers.end());
  EXPECT_EQ(num_sends(session, users, feeds), 2);
}

TEST(SessionRules, NodesMayBeCalledLikeThoseOfACut) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {}, "fed_0");
  const Tensor a = placeholder_with_default(Tensor(1.f), {}, "send_0");
  const Tensor b = placeholder_with_default(Tensor(1.f), {}, "recv_1");
  auto on = device("CPU:1");
  const Tensor y = x + a + b;
  Session session;
  EXPECT_EQ(session.run(y, {{x, Tensor(1.f)}}).to<float>(), 3.f);
}

TEST(SessionRules, EveryCauseIsTold) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {-1}, "x");
  const auto fails_on = [&](const char* where) {
    auto on = device(where);
    return reshape(x, {7});
  };
  const Tensor a = fails_on("CPU:0");
  const Tensor b = fails_on("CPU:1");
  Session session;
  // Which part fails first is chance; a later one may have been cancelled before it failed.
  EXPECT_ERROR(Code::InvalidArgument, "Reshape", session.run({a, b}, {{x, Tensor({1.f, 2.f})}}));
}

// CPU:1 stops until CPU:0 has an element of the queue.
TEST(SessionRules, APartThatWaitsForAnotherDeviceGoesOnOrEndsWithTheRun) {
  internal::ensure_cpu_devices(2);
  Graph graph;
  auto building = graph.as_default();
  Tensor put, got;
  {
    auto on = device("CPU:0");
    FifoQueue queue({.capacity = 1, .components = {{kFloat32}}});
    put = queue.enqueue({Tensor(1.f)});
    got = queue.dequeue()[0];
  }
  auto on = device("CPU:1");
  const Tensor y = got * 2.f;
  Session session;
  const RunOptions limited{.timeout = std::chrono::milliseconds(30)};
  EXPECT_ERROR(Code::DeadlineExceeded, "longer than 30 ms", session.run(y, {}, limited));
  Tensor result;
  {
    const internal::Thread waits("waits", [&](const std::stop_token&) { result = session.run(y); });
    session.run(put);
  }
  EXPECT_EQ(result.to<float>(), 2.f);
}

// The first run uses a thread per device, later ones are known to be quick.
TEST(SessionRules, RunsOnSeveralDevicesGiveTheSameEachTime) {
  internal::ensure_cpu_devices(3);
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {});
  Tensor y = x;
  for (const char* place : {"CPU:1", "CPU:0", "CPU:2", "CPU:1", "CPU:0"}) {
    auto on = device(place);
    y = y * 2.f + 1.f;
  }
  Session session;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(session.run(y, {{x, Tensor(static_cast<float>(i))}}).to<float>(), 32.f * i + 31.f);
  }
}

TEST(SharedState, AnotherShapeOrDtypeIsRefusedWhileAValueIsStored) {
  Graph graph;
  auto building = graph.as_default();
  const Variable v = get_variable("v", {.shape = {2}, .initializer = nn::ones()});
  const Tensor handle = graph.tensor("v");
  const auto assign = [&](const Tensor& value) {
    return internal::apply(internal::find_op("AssignVariable"), {handle, value},
                           {{"dtype", value.dtype()}, {"shape", value.shape()}});
  };
  const Tensor longer = assign(constant(Tensor({1.f, 2.f, 3.f})));
  const Tensor integers = assign(constant(Tensor({1, 2})));
  const Tensor same = assign(constant(Tensor({3.f, 4.f})));
  Session session;
  session.run(global_variables_initializer());
  EXPECT_ERROR(Code::InvalidArgument, "'v' holds float32 of shape (2,)", session.run(longer));
  EXPECT_ERROR(Code::InvalidArgument, "'v' holds float32", session.run(integers));
  session.run(same);
  EXPECT_EQ(session.run(v.read_value()).to_vector<float>(), (std::vector<float>{3.f, 4.f}));
}

TEST(VariableOps, ValuesMustBeOfTheVariablesKind) {
  Variable v(Tensor({1.f, 2.f}));
  const Tensor handle = internal::VariableAccess::impl(v)->handle().handle;
  const internal::Attrs attrs{{"dtype", kFloat32}, {"shape", Shape{2}}};
  for (const char* op : {"AssignVariable", "AssignAddVariable", "AssignSubVariable"}) {
    const auto change = [&](const Tensor& value) {
      internal::apply(internal::find_op(op), {handle, value}, attrs);
    };
    EXPECT_ERROR(Code::InvalidArgument, "int32", change(Tensor({1, 2})));
    EXPECT_ERROR(Code::InvalidArgument, "(3,)", change(Tensor({1.f, 2.f, 3.f})));
  }
}

TEST(OptimizerOps, OneVariableTwiceIsAnErrorAndNoDeadlock) {
  Variable v(Tensor({1.f, 2.f}));
  const Tensor handle = internal::VariableAccess::impl(v)->handle().handle;
  EXPECT_ERROR(
      Code::InvalidArgument, "inputs 0 and 1 are both variable",
      internal::apply(internal::find_op("ApplyMomentum"),
                      {handle, handle, Tensor({1.f, 1.f}), Tensor(0.1), Tensor(int64_t{1})},
                      {{"dtype", kFloat32},
                       {"shape", Shape{2}},
                       {"weight_decay", 0.0},
                       {"momentum", 0.9},
                       {"nesterov", false},
                       {"tensorflow", false},
                       {"sparse", false}}));
}

}  // namespace
}  // namespace cohort
