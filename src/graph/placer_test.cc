#include <algorithm>

#include "support/placer_cases.h"

namespace cohort::internal {
namespace {

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

// Every order of the nodes that come last gives the same places.
TEST(Placer, SoftPlacementDoesNotDependOnTheOrderOfNodes) {
  struct Case {
    std::vector<NodeRow> first;
    std::vector<NodeRow> rest;
  };
  const std::vector<Case> cases = {
      {{var("w")},
       {{"a", "/device:GPU:0", {"w"}},
        {"b", "/device:CPU:1", {"w"}},
        {"c", "/device:GPU:0", {"w"}}}},
      {{var("w")}, {{"a", "/cpu:0", {"w"}}, {"b", "/cpu:1", {"w"}}, {"c", "/cpu:1", {"w"}}}},
      {{{"x"}},
       {{"a", "/device:GPU:0", {}, {"x"}},
        {"b", "/device:CPU:1", {}, {"x"}},
        {"c", "/device:GPU:0", {}, {"x"}}}},
  };
  for (const Case& row : cases) {
    std::vector<NodeRow> rest = row.rest;
    std::map<std::string, std::string> expected;
    std::sort(rest.begin(), rest.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    do {
      std::vector<NodeRow> nodes = row.first;
      nodes.insert(nodes.end(), rest.begin(), rest.end());
      const auto found = place(nodes, on(kGpuHost, true));
      if (expected.empty()) expected = found;
      EXPECT_EQ(found, expected) << rest[0].name << rest[1].name << rest[2].name;
    } while (std::next_permutation(rest.begin(), rest.end(),
                                   [](const auto& a, const auto& b) { return a.name < b.name; }));
  }
}

TEST(Placer, WhichColocationIsDroppedDoesNotDependOnTheOrderOfNodes) {
  const NodeRow x{"x"};
  const NodeRow a{"a", "/job:ps", {}, {"x"}};
  const NodeRow b{"b", "/job:worker", {}, {"x"}};
  const auto found = place({x, a, b}, on(kCluster, true));
  EXPECT_EQ(found, place({x, b, a}, on(kCluster, true)));
  EXPECT_EQ(found.at("x"), found.at("a"));
}

}  // namespace
}  // namespace cohort::internal
