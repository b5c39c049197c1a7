#include "support/placer_cases.h"

namespace cohort::internal {
namespace {

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

}  // namespace
}  // namespace cohort::internal
