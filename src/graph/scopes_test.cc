#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <variant>

#include "base/timeline.h"
#include "cohort/device.h"
#include "cohort/graph.h"
#include "cohort/ops.h"
#include "graph/function_graph.h"
#include "ops/traced_step.h"
#include "support/expect_error.h"

namespace cohort {
namespace {

using Scope = std::variant<std::nullptr_t, std::string, DeviceFunction>;

struct Row {
  std::vector<Scope> scopes;  // outermost first
  std::string expected;
};

// The device of a node that is made inside the scopes.
std::string device_within(const std::vector<Scope>& scopes) {
  Graph graph;
  const auto building = graph.as_default();
  std::vector<std::unique_ptr<DeviceScope>> open;
  for (const Scope& scope : scopes) {
    open.push_back(
        std::visit([](const auto& entry) { return std::make_unique<DeviceScope>(entry); }, scope));
  }
  placeholder(kFloat32);
  while (!open.empty()) open.pop_back();
  return graph.nodes()[0].device;
}

DeviceFunction always(std::string device) {
  return [device](const DeviceRequest&) { return device; };
}
DeviceFunction fills_in(const std::string& device) {
  return [outer = DeviceName::parse(device)](const DeviceRequest& request) {
    return DeviceName::parse(request.device).filled_from(outer).to_string();
  };
}

TEST(DeviceScopes, SayWhereANodeGoes) {
  const std::string none;
  const std::vector<Row> table = {
      {{}, ""},
      {{"/job:trainer/device:GPU:3", "/task:5"}, "/job:trainer/task:5/device:GPU:3"},
      {{"/job:trainer/task:1", "/job:store"}, "/job:store/task:1"},
      {{"/device:GPU:2", nullptr, "/job:store"}, "/job:store"},
      {{always("/job:x"), "/job:store/task:0"}, "/job:x"},
      {{fills_in("/job:x/task:9"), "/job:store"}, "/job:store/task:9"},
      {{"/device:CPU:4", "/device:CPU:*"}, "/device:CPU:4"},
      {{"/job:a", none, "/task:1"}, "/job:a/task:1"},
      {{"/job:a", nullptr}, ""},
      {{"/job:a", always("/task:3")}, "/job:a/task:3"},
      {{nullptr, always("")}, ""},
  };
  for (const Row& row : table) EXPECT_EQ(device_within(row.scopes), row.expected);
}

TEST(DeviceScopes, GiveFunctionsTheNodeAndWhatWasAskedFor) {
  DeviceRequest seen;
  const DeviceFunction look = [&seen](const DeviceRequest& request) {
    seen = request;
    return request.device;
  };
  EXPECT_EQ(device_within({"/job:a", look, "/task:1"}), "/job:a/task:1");
  EXPECT_EQ(seen.name, "Placeholder");
  EXPECT_EQ(seen.op, "Placeholder");
  EXPECT_EQ(seen.device, "/task:1");
}

TEST(DeviceScopes, RefuseWhatIsNoDeviceName) {
  EXPECT_ERROR(Code::InvalidArgument, "'/job:1x'", device_within({"/job:1x"}));
  EXPECT_ERROR(Code::InvalidArgument, "'/job:1x'", device_within({always("/job:1x")}));
}

// The scopes, opened one inside the other.
template <typename Scope, typename... Args>
void expect_reverse_order(const Args&... args) {
  auto outer = std::make_unique<Scope>(args...);
  auto inner = std::make_unique<Scope>(args...);
  EXPECT_ERROR(Code::FailedPrecondition, "reverse order", outer->close());
  inner->close();
  inner->close();  // again: nothing
  outer->close();
}

TEST(Scopes, EndInReverseOrder) {
  Graph graph;
  auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {}, "x");
  expect_reverse_order<NameScope>("layer");
  expect_reverse_order<ControlDependencies>(std::vector<Tensor>{x});
  expect_reverse_order<Colocation>(x);
  expect_reverse_order<DeviceScope>("CPU:0");
  EXPECT_EQ(graph.tensor("x").dtype(), kFloat32);
}

TEST(Graphs, FindATensorByItsWholeNameOnly) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {4}, "x");
  const std::vector<Tensor> halves = split(x, 2);
  EXPECT_EQ(graph.tensor("Split:1").shape(), Shape{2});
  // The last one does not fit into the number of an output.
  for (const char* const name : {"y", "x:1", "x:", "x:-1", "x:0 ", "Split:2", "x:99999999999"}) {
    EXPECT_ERROR(Code::NotFound, std::string("no tensor '") + name + "'", graph.tensor(name));
  }
}

TEST(Scopes, AGraphThatEndsTooEarlyStaysOpen) {
  Graph a;
  Graph b;
  auto outer = a.as_default();
  {
    auto inner = b.as_default();
    EXPECT_ERROR(Code::FailedPrecondition, "reverse order", outer.close());
    EXPECT_TRUE(get_default_graph() == b);
    inner.close();
  }
  EXPECT_TRUE(get_default_graph() == a);
  outer.close();
  EXPECT_FALSE(building_graph());
}

TEST(Scopes, DestructorsOutOfOrderTakeTheirOwnScopeOut) {
  Graph a;
  Graph b;
  auto outer = std::unique_ptr<Graph::Scope>(new Graph::Scope(a.as_default()));
  auto inner = std::unique_ptr<Graph::Scope>(new Graph::Scope(b.as_default()));
  auto outer_name = std::make_unique<NameScope>("outer");
  auto inner_name = std::make_unique<NameScope>("inner");
  outer_name.reset();
  outer.reset();
  EXPECT_TRUE(get_default_graph() == b);
  placeholder(kFloat32, {}, "x");
  EXPECT_EQ(b.nodes()[0].name, "outer/inner/x");
  inner_name.reset();
  inner.reset();
  EXPECT_FALSE(building_graph());
}

TEST(Graphs, TakeConstantsForDevicesThatThisProcessDoesNotHave) {
  for (const std::string name : {"/gpu:0", "/job:ps/task:3", "/job:localhost/task:1", "tpu:2"}) {
    Graph graph;
    const auto building = graph.as_default();
    const auto on = device(name);
    const std::string asked = DeviceName::parse_any_form(name).to_string();
    EXPECT_EQ(constant(1.f).device(), asked);
    EXPECT_EQ(constant({1, 2, 3}).device(), asked);
    EXPECT_EQ(constant({"text"}).device(), asked);
    EXPECT_EQ(add(placeholder(kFloat32), 2.f).device(), asked);
  }
}

TEST(Graphs, TellTheDeviceThatANodeAsksFor) {
  Graph graph;
  const auto building = graph.as_default();
  EXPECT_EQ(placeholder(kFloat32).device(), "");
  std::optional<DeviceScope> on("/job:ps/task:1");
  const Tensor there = placeholder(kFloat32);
  on.reset();
  const Colocation together(there);
  EXPECT_EQ(placeholder(kFloat32).device(), "/job:ps/task:1");
}

TEST(Graphs, KnowTheLineOfAnExpression) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32);
  const int line = __LINE__ + 1;
  const Tensor all[] = {x + 1.f, 2.f * x, -x, x < 3.f, x[0]};
  const std::vector<NodeInfo> nodes = graph.nodes();
  for (const std::string op : {"Add", "Mul", "Neg", "Less", "Index"}) {
    const auto made = std::ranges::find(nodes, op, &NodeInfo::op);
    ASSERT_NE(made, nodes.end()) << op;
    EXPECT_EQ(std::string(made->site.file), __FILE__) << op;
    EXPECT_EQ(made->site.line, line) << op;
  }
  EXPECT_EQ(std::size(all), 5u);
}

TEST(TensorName, IsThatOfItsNodeAndOutput) {
  Graph graph;
  const auto building = graph.as_default();
  const NameScope layer("layer");
  EXPECT_EQ(placeholder(kFloat32, {}, "x").name(), "layer/x:0");
  const Graph::Scope outside(nullptr);
  EXPECT_ERROR(Code::FailedPrecondition, "only tensors of a graph have a name", Tensor(1.f).name());
}

// While it lives, this process notes when the parts of steps begin and end.
class TimelineOn {
 public:
  TimelineOn() {
    setenv("COHORT_TRACE_FILE", "/dev/null", 1);
    internal::timeline_switch = 1;
  }
  ~TimelineOn() {
    internal::timeline_switch = 0;
    unsetenv("COHORT_TRACE_FILE");
  }
};

TEST(TracedStep, GoesOnAfterATraceInside) {
  const TimelineOn on;
  std::vector<NodeInfo> nodes;
  internal::trace("outer", {}, [&](auto) {
    internal::begin_traced_step();
    internal::trace("inner", {}, [](auto) {
      internal::begin_traced_step();
      return std::vector<Tensor>();
    });
    internal::end_traced_forward(Tensor(1.f));
    internal::end_traced_step(Tensor(int64_t{1}), Tensor(1.f));
    nodes = get_default_graph().nodes();
    return std::vector<Tensor>();
  });
  EXPECT_EQ(std::ranges::count(nodes, "TimelinePart", &NodeInfo::op), 4);
}

TEST(TracedStep, EndsWithATraceThatThrows) {
  const TimelineOn on;
  std::optional<Graph> graph;
  const auto body = [&](auto) -> std::vector<Tensor> {
    internal::begin_traced_step();
    graph = get_default_graph();
    throw std::runtime_error("the body fails");
  };
  EXPECT_THROW(internal::trace("f", {}, body), std::runtime_error);
  const auto building_again = graph->as_default();
  const size_t before = graph->size();
  internal::end_traced_forward(Tensor(1.f));
  EXPECT_EQ(graph->size(), before);
}

}  // namespace
}  // namespace cohort
