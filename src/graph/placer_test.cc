#include "graph/placer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "support/expect_error.h"

namespace cohort::internal {
namespace {

using Names = std::vector<std::string>;

// Ops stand for their kind: what matters here is what goes in and comes out.
constexpr OpDef make_op(std::string_view name) {
  return {
      .name = name, .dtypes = kAnyType, .infer = nullptr, .compute = nullptr, .gradient = nullptr};
}
constexpr OpDef kVarOp = make_op("Var");
constexpr OpDef kTextOp = make_op("Text");
constexpr OpDef kPlainOp = make_op("Op");

struct NodeRow {
  std::string name;
  std::string device = "";
  Names inputs = {};
  Names with = {};              // colocated with these
  const OpDef* op = &kPlainOp;  // kVarOp gives a handle, kTextOp a string
};

NodeRow var(std::string name, std::string device = "", Names with = {}) {
  return {std::move(name), std::move(device), {}, std::move(with), &kVarOp};
}
NodeRow text(std::string name, std::string device = "", Names inputs = {}) {
  return {std::move(name), std::move(device), std::move(inputs), {}, &kTextOp};
}
NodeRow looks(std::string name, std::string op, Names inputs, std::string device = "") {
  return {std::move(name), std::move(device), std::move(inputs), {}, &find_op(op)};
}

DType dtype_of(const OpDef& op) {
  if (&op == &kVarOp) return kResource;
  return &op == &kTextOp ? kString : kFloat32;
}

void append(GraphImpl& graph, const std::vector<NodeRow>& rows) {
  for (const NodeRow& row : rows) {
    Node node{.name = row.name,
              .op = row.op,
              .device = DeviceName::parse(row.device),
              .colocated_with = row.with,
              .outputs = {{dtype_of(*row.op), Shape{}}}};
    for (const std::string& input : row.inputs) node.inputs.push_back({graph.find(input), 0});
    graph.add(std::move(node));
  }
}

// "ps:0/CPU:1" is /job:ps/replica:0/task:0/device:CPU:1.
std::string full(const std::string& brief) {
  const size_t colon = brief.find(':');
  const size_t slash = brief.find('/');
  return fmt::format("/job:{}/replica:0/task:{}/device:{}", brief.substr(0, colon),
                     brief.substr(colon + 1, slash - colon - 1), brief.substr(slash + 1));
}

PlacementOptions on(const Names& devices, bool soft = false) {
  PlacementOptions options;
  for (const std::string& device : devices)
    options.devices.push_back(DeviceName::parse(full(device)));
  options.home = options.devices.empty() ? DeviceName{} : options.devices.front();
  options.allow_soft_placement = soft;
  options.hint = "give the session a target";
  return options;
}

const Names kHost = {"localhost:0/CPU:0", "localhost:0/CPU:1"};
const Names kGpuHost = {"localhost:0/CPU:0", "localhost:0/CPU:1", "localhost:0/GPU:0",
                        "localhost:0/GPU:1"};
// The session's own task is worker 1.
const Names kCluster = {"worker:1/CPU:0", "worker:0/CPU:0", "worker:10/CPU:0",
                        "ps:0/CPU:0",     "ps:2/CPU:0",     "ps:10/CPU:0"};
const Names kGpuCluster = {"worker:1/CPU:0", "worker:0/CPU:0", "worker:0/GPU:0", "ps:0/CPU:0"};

std::map<std::string, std::string> place(const std::vector<NodeRow>& rows,
                                         const PlacementOptions& options) {
  const auto graph = std::make_shared<GraphImpl>();
  append(*graph, rows);
  const std::vector<DeviceName> devices = place_nodes(*graph, 0, {}, options);
  std::map<std::string, std::string> result;
  for (int id = 0; id < graph->size(); ++id) {
    result[graph->node(id).name] = devices[static_cast<size_t>(id)].to_string();
  }
  return result;
}

struct Row {
  std::string fact;
  Names devices;
  std::vector<NodeRow> nodes;
  std::map<std::string, std::string> expected;  // node -> device, in brief
};

void expect_placed(const std::vector<Row>& table, bool soft) {
  for (const Row& row : table) {
    std::map<std::string, std::string> found;
    const Status status = error_of([&] { found = place(row.nodes, on(row.devices, soft)); });
    EXPECT_TRUE(status.ok()) << row.fact << ": " << status.message;
    for (const auto& [node, device] : row.expected) {
      EXPECT_EQ(found[node], full(device)) << row.fact << ": " << node;
    }
  }
}

struct ErrorRow {
  std::string fact;
  Names devices;
  std::vector<NodeRow> nodes;
  Names fragments;
};

void expect_refused(const std::vector<ErrorRow>& table, bool soft) {
  for (const ErrorRow& row : table) {
    const Status status = error_of([&] { place(row.nodes, on(row.devices, soft)); });
    EXPECT_EQ(status.code, Code::InvalidArgument) << row.fact;
    for (const std::string& fragment : row.fragments) {
      EXPECT_NE(status.message.find(fragment), std::string::npos)
          << row.fact << ": no \"" << fragment << "\" in: " << status.message;
    }
  }
}

TEST(Placer, ChoosesAmongTheDevicesThatMatch) {
  const std::vector<Row> table = {
      {"nothing asked: the home task",
       kCluster,
       {{"a"}, {"b", "", {"a"}}},
       {{"a", "worker:1/CPU:0"}, {"b", "worker:1/CPU:0"}}},
      {"nothing asked: not another task's GPU", kGpuCluster, {{"a"}}, {{"a", "worker:1/CPU:0"}}},
      {"nothing asked: the home task's GPU", kGpuHost, {{"a"}}, {{"a", "localhost:0/GPU:0"}}},
      {"a job: its home task", kCluster, {{"a", "/job:worker"}}, {{"a", "worker:1/CPU:0"}}},
      {"another job: names in string order", kCluster, {{"a", "/job:ps"}}, {{"a", "ps:0/CPU:0"}}},
      {"10 comes before 2",
       {"worker:0/CPU:0", "ps:2/CPU:0", "ps:10/CPU:0"},
       {{"a", "/job:ps"}},
       {{"a", "ps:10/CPU:0"}}},
      {"a task", kCluster, {{"a", "/job:ps/task:2"}}, {{"a", "ps:2/CPU:0"}}},
      {"a type that home lacks", kGpuCluster, {{"a", "/device:GPU:*"}}, {{"a", "worker:0/GPU:0"}}},
      {"a task: its better type",
       kGpuCluster,
       {{"a", "/job:worker/task:0"}},
       {{"a", "worker:0/GPU:0"}}},
      {"an index", kHost, {{"a", "/cpu:1"}}, {{"a", "localhost:0/CPU:1"}}},
      {"wildcards are no request", kCluster, {{"a", "/job:*/task:*"}}, {{"a", "worker:1/CPU:0"}}},
      {"strings stay on the host",
       kGpuHost,
       {text("a"), {"b", "", {"a"}}},
       {{"a", "localhost:0/CPU:0"}, {"b", "localhost:0/CPU:0"}}},
  };
  expect_placed(table, false);
  expect_placed(table, true);
}

TEST(Placer, KeepsTogetherWhatMustBeTogether) {
  const std::vector<Row> table = {
      {"colocated",
       kCluster,
       {{"a", "/job:ps/task:2"}, {"b", "", {}, {"a"}}},
       {{"b", "ps:2/CPU:0"}}},
      {"colocated in a chain",
       kCluster,
       {{"a"}, {"b", "", {}, {"a"}}, {"c", "/job:ps/task:2", {}, {"b"}}},
       {{"a", "ps:2/CPU:0"}}},
      {"colocated with a later node",
       kCluster,
       {{"a", "", {}, {"b"}}, {"b", "/job:ps/task:10"}},
       {{"a", "ps:10/CPU:0"}}},
      {"colocated with itself", kCluster, {{"a", "/job:ps", {}, {"a"}}}, {{"a", "ps:0/CPU:0"}}},
      {"a consumer follows its resource",
       kCluster,
       {var("v", "/job:ps/task:2"), {"read", "", {"v"}}},
       {{"read", "ps:2/CPU:0"}}},
      {"what the resource asks for is stronger",
       kCluster,
       {var("v", "/job:ps/task:2"), {"read", "/job:worker/task:0", {"v"}}},
       {{"v", "ps:2/CPU:0"}, {"read", "ps:2/CPU:0"}}},
      {"even in its device part",
       kGpuHost,
       {var("v", "/cpu:1"), {"read", "/gpu:0", {"v"}}},
       {{"v", "localhost:0/CPU:1"}, {"read", "localhost:0/CPU:1"}}},
      {"the consumer decides when the resource is silent",
       kCluster,
       {var("v"), {"read", "/job:ps/task:2", {"v"}}},
       {{"v", "ps:2/CPU:0"}}},
      {"a consumer refines",
       kCluster,
       {var("v", "/job:ps"), {"read", "/task:2", {"v"}}, {"write", "", {"v"}}},
       {{"v", "ps:2/CPU:0"}, {"write", "ps:2/CPU:0"}}},
      {"a colocated node refines",
       kHost,
       {{"a", "/job:localhost"},
        {"b", "/device:CPU:*", {}, {"a"}},
        {"c", "/device:*:1", {}, {"b"}}},
       {{"a", "localhost:0/CPU:1"}}},
      {"resources of one op",
       kCluster,
       {var("v", "/job:ps"), var("slot", "/task:10"), {"apply", "", {"v", "slot"}}},
       {{"v", "ps:10/CPU:0"}, {"slot", "ps:10/CPU:0"}}},
      {"values do not tie",
       kCluster,
       {{"a", "/job:ps"}, {"b", "/job:worker/task:0", {"a"}}},
       {{"a", "ps:0/CPU:0"}, {"b", "worker:0/CPU:0"}}},
      {"one host-only member decides the type",
       kGpuHost,
       {var("v"), text("read", "", {"v"})},
       {{"v", "localhost:0/CPU:0"}}},
  };
  expect_placed(table, false);
  expect_placed(table, true);
}

// Rows: the same two requests joined by colocation, by one consumer of two resources, and as two
// consumers of one resource.
std::vector<NodeRow> colocated(const std::string& a, const std::string& b) {
  return {{"a", a}, {"b", b, {}, {"a"}}};
}
std::vector<NodeRow> two_resources(const std::string& a, const std::string& b) {
  return {var("a", a), var("b", b), {"both", "", {"a", "b"}}};
}
std::vector<NodeRow> two_consumers(const std::string& a, const std::string& b) {
  return {var("v"), {"a", a, {"v"}}, {"b", b, {"v"}}};
}

struct ClashRow {
  std::string part;
  std::string a;
  std::string b;
};
const std::vector<ClashRow> kTaskClashes = {{"job", "/job:ps", "/job:worker"},
                                            {"replica", "/replica:0", "/replica:1"},
                                            {"task", "/job:worker/task:0", "/job:worker/task:1"}};
const std::vector<ClashRow> kDeviceClashes = {{"device type", "/device:GPU:0", "/device:CPU:0"},
                                              {"device index", "/device:CPU:0", "/device:CPU:1"}};

std::vector<ErrorRow> clash_errors(const std::vector<ClashRow>& clashes,
                                   std::vector<NodeRow> (*join)(const std::string&,
                                                                const std::string&),
                                   const std::string& reason) {
  std::vector<ErrorRow> rows;
  for (const ClashRow& clash : clashes) {
    rows.push_back({clash.part + ", " + reason,
                    kGpuCluster,
                    join(clash.a, clash.b),
                    {"'a'", "'b'", "asks for '" + clash.a + "'", "asks for '" + clash.b + "'",
                     "the " + clash.part + " differs", reason}});
  }
  return rows;
}

TEST(Placer, HardPlacementRefusesEveryClash) {
  for (const auto& clashes : {kTaskClashes, kDeviceClashes}) {
    expect_refused(clash_errors(clashes, colocated, "colocation was asked for"), false);
    expect_refused(clash_errors(clashes, two_resources, "they use one resource"), false);
    expect_refused(clash_errors(clashes, two_consumers, "they use one resource"), false);
  }
}

TEST(Placer, SoftPlacementRefusesClashesOfResources) {
  expect_refused(clash_errors(kTaskClashes, two_resources, "they use one resource"), true);
  expect_refused(clash_errors(kTaskClashes, two_consumers, "they use one resource"), true);
  expect_refused(clash_errors(kDeviceClashes, two_resources, "they use one resource"), true);
}

TEST(Placer, SoftPlacementDropsTypeAndIndexThatClash) {
  expect_placed({{"types of colocated nodes",
                  kGpuHost,
                  colocated("/cpu:1", "/gpu:1"),
                  {{"a", "localhost:0/GPU:0"}, {"b", "localhost:0/GPU:0"}}},
                 {"indices of colocated nodes",
                  kGpuHost,
                  colocated("/cpu:1", "/cpu:0"),
                  {{"a", "localhost:0/CPU:0"}, {"b", "localhost:0/CPU:0"}}},
                 {"types of two consumers",
                  kGpuHost,
                  two_consumers("/cpu:1", "/gpu:1"),
                  {{"v", "localhost:0/GPU:0"}, {"b", "localhost:0/GPU:0"}}},
                 {"indices of two consumers",
                  kGpuHost,
                  two_consumers("/gpu:1", "/gpu:0"),
                  {{"v", "localhost:0/GPU:0"}, {"a", "localhost:0/GPU:0"}}}},
                true);
}

TEST(Placer, SoftPlacementLeavesOutColocationThatCannotBe) {
  testing::internal::CaptureStderr();
  expect_placed({{"jobs",
                  kCluster,
                  colocated("/job:ps/task:2", "/job:worker/task:0"),
                  {{"a", "ps:2/CPU:0"}, {"b", "worker:0/CPU:0"}}},
                 {"tasks",
                  kCluster,
                  colocated("/job:ps/task:2", "/job:ps/task:10"),
                  {{"a", "ps:2/CPU:0"}, {"b", "ps:10/CPU:0"}}}},
                true);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("node 'b' (Op, asks for '/job:worker/task:0') is not placed with 'a'"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find("the task differs"), std::string::npos) << log;
}

TEST(Placer, SoftPlacementKeepsTheTaskAndDropsTheDevice) {
  expect_placed(
      {{"no such type", kCluster, {{"a", "/job:ps/task:2/device:GPU:0"}}, {{"a", "ps:2/CPU:0"}}},
       {"no such index", kHost, {{"a", "/cpu:7"}}, {{"a", "localhost:0/CPU:0"}}},
       {"no kernel on it", kGpuHost, {text("a", "/gpu:1")}, {{"a", "localhost:0/CPU:0"}}},
       {"the whole group moves",
        kGpuHost,
        {var("v", "/gpu:1"), text("read", "", {"v"}), {"write", "", {"v"}}},
        {{"v", "localhost:0/CPU:0"},
         {"read", "localhost:0/CPU:0"},
         {"write", "localhost:0/CPU:0"}}}},
      true);
}

TEST(Placer, SoftPlacementWarnsWhenAResourceMovesForItsConsumers) {
  testing::internal::CaptureStderr();
  place({var("v", "/gpu:1"), text("read", "", {"v"})}, on(kGpuHost, true));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("node 'v' (Var, asks for '/device:GPU:1') goes to '" + full(kHost[0])),
            std::string::npos)
      << log;
}

TEST(Placer, ErrorsNameTheNodeItsRequestAndTheDevices) {
  const std::vector<ErrorRow> both = {
      {"no such task",
       kCluster,
       {{"fine"}, {"a", "/job:worker/task:7"}},
       {"node 'a' (Op, asks for '/job:worker/task:7')", "no device matches",
        "devices: " + full("ps:0/CPU:0") + ", " + full("ps:10/CPU:0") + ", " + full("ps:2/CPU:0") +
            ", " + full("worker:0/CPU:0")}},
      {"no such job",
       kHost,
       {{"a", "/job:ps/task:0"}},
       {"'a' (Op, asks for '/job:ps/task:0')", "give the session a target",
        full(kHost[0]) + ", " + full(kHost[1])}},
      {"a group",
       kHost,
       {var("w", "/job:ps/task:0"), {"read", "", {"w"}}},
       {"node 'w' (Var, asks for '/job:ps/task:0'), whose group asks for '/job:ps/task:0' together",
        "no device matches",
        "the group: 'w' (Var, asks for '/job:ps/task:0') has kernels on GPU, CPU, 'read' (Op, asks "
        "for no device) has kernels on GPU, CPU"}},
      {"a request that only the group makes impossible",
       kCluster,
       {var("v", "/job:ps"), {"read", "/task:1", {"v"}}},
       {"node 'v' (Var, asks for '/job:ps'), whose group asks for '/job:ps/task:1' together",
        "no device matches", "'read' (Op, asks for '/task:1')"}},
  };
  expect_refused(both, false);
  expect_refused(both, true);
  expect_refused({{"no such type",
                   kHost,
                   {{"a", "/gpu:0"}},
                   {"'a' (Op, asks for '/device:GPU:0')", "no device matches"}},
                  {"no kernel",
                   kGpuHost,
                   {text("a", "/gpu:0")},
                   {"'a' (Text, asks for '/device:GPU:0')", "there are kernels on CPU only"}},
                  {"no kernel for a member",
                   kGpuHost,
                   {var("v", "/gpu:0"), text("read", "", {"v"})},
                   {"'v' (Var, asks for '/device:GPU:0')", "there are kernels on CPU only",
                    "'read' (Text, asks for no device) has kernels on CPU"}}},
                 false);
}

TEST(Placer, HintsOnlyWhenTheJobDoesNotExist) {
  const Status status = error_of([] { place({{"a", "/job:worker/task:7"}}, on(kCluster)); });
  EXPECT_EQ(status.message.find("give the session a target"), std::string::npos) << status.message;
}

TEST(Placer, ErrorsNameTheLineThatMadeTheNode) {
  const auto graph = std::make_shared<GraphImpl>();
  graph->add({.name = "a",
              .op = &kPlainOp,
              .device = DeviceName::parse("/gpu:0"),
              .site = {"train.cc", 12}});
  EXPECT_ERROR(Code::InvalidArgument, "made at train.cc:12", place_nodes(*graph, 0, {}, on(kHost)));
}

TEST(Placer, UnknownColocationIsAnError) {
  expect_refused({{"unknown",
                   kHost,
                   {{"a", "", {}, {"ghost"}}},
                   {"'a'", "'ghost', which is not in the graph"}}},
                 false);
}

TEST(Placer, NoDevicesIsAnErrorUnlessThereIsNothingToPlace) {
  EXPECT_ERROR(Code::FailedPrecondition, "no devices", place({{"a"}}, on({})));
  EXPECT_TRUE(place({}, on({})).empty());
}

TEST(Placer, GeneratorsFollowTheirConsumers) {
  expect_placed(
      {{"all on one device",
        kCluster,
        {{"g"}, {"a", "/job:ps", {"g"}}, {"b", "/job:ps", {"g"}}},
        {{"g", "ps:0/CPU:0"}}},
       {"on two devices",
        kCluster,
        {{"g"}, {"a", "/job:ps", {"g"}}, {"b", "/job:worker/task:0", {"g"}}},
        {{"g", "worker:1/CPU:0"}}},
       {"no consumers", kCluster, {{"g"}}, {{"g", "worker:1/CPU:0"}}},
       {"its own request wins",
        kCluster,
        {{"g", "/job:worker/task:0"}, {"a", "/job:ps", {"g"}}},
        {{"g", "worker:0/CPU:0"}}},
       {"a request that leaves room",
        kCluster,
        {{"g", "/job:ps"}, {"a", "/job:ps/task:2", {"g"}}},
        {{"g", "ps:2/CPU:0"}}},
       {"no kernel there", kGpuHost, {text("g"), {"a", "", {"g"}}}, {{"g", "localhost:0/CPU:0"}}},
       {"colocation wins",
        kCluster,
        {{"x", "/job:worker/task:0"}, {"g", "", {}, {"x"}}, {"a", "/job:ps", {"g"}}},
        {{"g", "worker:0/CPU:0"}}},
       {"a shape does not count as a consumer",
        kCluster,
        {{"g"}, looks("s", "Shape", {"g"}), {"a", "/job:ps", {"g"}}},
        {{"g", "ps:0/CPU:0"}, {"s", "ps:0/CPU:0"}}}},
      false);
}

TEST(Placer, ShapeSizeAndRankFollowTheirInput) {
  const std::vector<NodeRow> source = {{"g"}, {"x", "/job:ps/task:2", {"g"}}};
  for (const char* op : {"Shape", "Size", "Rank"}) {
    std::vector<NodeRow> rows = source;
    rows.push_back(looks("a", op, {"x"}));
    rows.push_back(looks("b", op, {"x"}, "/job:worker"));
    rows.push_back(looks("c", op, {"x"}, "/job:ps"));
    rows.push_back(looks("d", op, {"a"}));
    expect_placed({{op,
                    kCluster,
                    rows,
                    {{"a", "ps:2/CPU:0"},
                     {"b", "worker:1/CPU:0"},
                     {"c", "ps:2/CPU:0"},
                     {"d", "ps:2/CPU:0"}}}},
                  false);
  }
}

// Nodes of an earlier call, where they went, and those that came later.
struct Extension {
  std::shared_ptr<GraphImpl> graph = std::make_shared<GraphImpl>();
  std::vector<DeviceName> placed = {};

  Extension(const std::vector<NodeRow>& before, const Names& devices,
            const std::vector<NodeRow>& after) {
    append(*graph, before);
    for (const std::string& device : devices) placed.push_back(DeviceName::parse(full(device)));
    append(*graph, after);
  }
  Names place(const PlacementOptions& options) const {
    Names names;
    for (const DeviceName& device :
         place_nodes(*graph, static_cast<int>(placed.size()), placed, options)) {
      names.push_back(device.to_string());
    }
    return names;
  }
};

TEST(Placer, NodesThatArePlacedStayAndOthersFollowThem) {
  const Extension grown({var("v"), {"x"}}, {"ps:2/CPU:0", "ps:10/CPU:0"},
                        {{"read", "/job:worker/task:0", {"v"}},
                         {"with", "", {}, {"x"}},
                         looks("shape", "Shape", {"x"}),
                         {"free"}});
  EXPECT_EQ(grown.place(on(kCluster)), (Names{full("ps:2/CPU:0"), full("ps:10/CPU:0"),
                                              full("ps:10/CPU:0"), full("worker:1/CPU:0")}));
  EXPECT_EQ(Extension({{"x"}}, {"ps:2/CPU:0"}, {}).place(on(kCluster)), Names{});
}

TEST(Placer, ANewResourceJoinsOneThatSoftPlacementMoved) {
  const Extension grown({var("v", "/gpu:0")}, {"localhost:0/CPU:1"},
                        {var("slot", "/gpu:0"), {"apply", "", {"v", "slot"}}});
  EXPECT_EQ(grown.place(on(kHost, true)),
            (Names{full("localhost:0/CPU:1"), full("localhost:0/CPU:1")}));
  EXPECT_ERROR(Code::InvalidArgument, "'v' (Var, placed on '" + full("localhost:0/CPU:1") + "')",
               grown.place(on(kHost)));
}

TEST(Placer, ClashesWithPlacedNodesAreErrors) {
  const Extension two({var("v"), var("w")}, {"localhost:0/CPU:0", "localhost:0/CPU:1"},
                      {{"both", "", {"v", "w"}}});
  EXPECT_ERROR(Code::InvalidArgument, "the device index differs", two.place(on(kHost)));
  EXPECT_ERROR(Code::InvalidArgument, "handles of both go to one op", two.place(on(kHost, true)));
  const Extension colocation({{"x"}}, {"localhost:0/CPU:0"}, {{"y", "/cpu:1", {}, {"x"}}});
  EXPECT_ERROR(Code::InvalidArgument, "'x' (Op, placed on '" + full("localhost:0/CPU:0") + "')",
               colocation.place(on(kHost)));
  const Extension strings({var("v")}, {"localhost:0/GPU:0"}, {text("read", "", {"v"})});
  EXPECT_ERROR(Code::InvalidArgument, "there are kernels on CPU only", strings.place(on(kGpuHost)));
}

TEST(Placer, SoftPlacementNeverMovesAPlacedNode) {
  const Extension colocation({{"x"}, {"z"}}, {"localhost:0/CPU:0", "localhost:0/CPU:1"},
                             {{"y", "/cpu:1", {}, {"x"}}, {"q", "", {}, {"x", "z"}}});
  EXPECT_EQ(colocation.place(on(kHost, true)),
            (Names{full("localhost:0/CPU:0"), full("localhost:0/CPU:0")}));
}

TEST(Placer, AWrongEarlierPlacementIsInternal) {
  EXPECT_ERROR(Code::Internal, "'x' was placed on '" + full("gone:0/CPU:0") + "'",
               Extension({{"x"}}, {"gone:0/CPU:0"}, {{"y"}}).place(on(kHost)));
  EXPECT_ERROR(Code::Internal, "no kernel",
               Extension({text("x")}, {"localhost:0/GPU:0"}, {{"y"}}).place(on(kGpuHost)));
  const Extension all({{"x"}, {"y"}}, {}, {});
  EXPECT_ERROR(Code::Internal, "1 nodes", place_nodes(*all.graph, 1, {}, on(kHost)));
}

TEST(Placer, TakesLargeGraphsAndLargeClusters) {
  std::vector<NodeRow> rows;
  for (int i = 0; i < 20'000; ++i) {
    const std::string n = std::to_string(i);
    rows.push_back(var("v" + n, fmt::format("/job:ps/task:{}", i % 100)));
    rows.push_back({"c" + n});
    rows.push_back({"read" + n, "/job:worker/task:0", {"v" + n}});
    rows.push_back({"add" + n, "", {"read" + n, "c" + n}, {"v" + n}});
    rows.push_back(looks("shape" + n, "Shape", {"add" + n}));
  }
  Names devices = {"worker:0/CPU:0"};
  for (int i = 0; i < 100; ++i) devices.push_back(fmt::format("ps:{}/CPU:0", i));
  const auto graph = std::make_shared<GraphImpl>();
  append(*graph, rows);
  const std::vector<DeviceName> placed = place_nodes(*graph, 0, {}, on(devices));
  for (const int node : {0, 1, 2, 3, 4}) {
    EXPECT_EQ(placed[static_cast<size_t>(5 * 4'242 + node)].to_string(), full("ps:42/CPU:0"))
        << node;
  }
}

}  // namespace
}  // namespace cohort::internal
