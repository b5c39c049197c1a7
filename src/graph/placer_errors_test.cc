#include "support/placer_cases.h"

namespace cohort::internal {
namespace {

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

TEST(Placer, AnOpThatIsHostOnlyGoesToACpuOfItsTask) {
  expect_placed({{"without a request", kGpuHost, {host_only("a")}, {{"a", "localhost:0/CPU:0"}}}},
                false);
  expect_placed(
      {{"in the scope of a GPU",
        kGpuCluster,
        {{"x", "/job:worker/task:0/gpu:0"}, host_only("a", "/job:worker/task:0/gpu:0", {"x"})},
        {{"x", "worker:0/GPU:0"}, {"a", "worker:0/CPU:0"}}}},
      true);
  expect_refused({{"in the scope of a GPU",
                   kGpuHost,
                   {host_only("a", "/gpu:0")},
                   {"'a' (Host, asks for '/device:GPU:0')", "there are kernels on CPU only"}}},
                 false);
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
  EXPECT_ERROR(Code::FailedPrecondition, "list of devices", place({{"a"}}, on({})));
  EXPECT_TRUE(place({}, on({})).empty());
}

}  // namespace
}  // namespace cohort::internal
