#include <gtest/gtest.h>

#include "cohort/device.h"
#include "cohort/graph.h"
#include "cohort/ops.h"

namespace cohort {
namespace {

TEST(ToDot, DrawsNodesEdgesScopesAndDevices) {
  Graph graph;
  const auto building = graph.as_default();
  const Tensor x = placeholder(kFloat32, {4}, "x");
  Tensor y;
  {
    const auto scope = name_scope("layer");
    const auto on = device("/job:ps");
    y = exp(x);
  }
  const std::vector<Tensor> halves = split(x, 2, 0);
  {
    const auto after = control_dependencies({y});
    neg(halves[1]);
  }
  EXPECT_EQ(graph.to_dot(), R"(digraph {
  node [shape=box, style="rounded,filled", fillcolor=white];
  n0 [label="x\nPlaceholder"];
  n2 [label="Split\nSplit"];
  n3 [label="Neg\nNeg"];
  subgraph cluster_0 { label="layer";
  n1 [label="layer/Exp\nExp\n/job:ps", fillcolor="#8dd3c7"];
  }
  n0 -> n1;
  n0 -> n2;
  n2 -> n3 [taillabel="1"];
  n1 -> n3 [style=dashed];
}
)");
}

TEST(ToDot, GivesEachDeviceAColour) {
  Graph graph;
  const auto building = graph.as_default();
  for (const char* name : {"/cpu:0", "/cpu:1", "/cpu:0"}) {
    const auto on = device(name);
    placeholder(kFloat32, {}, "x");
  }
  const std::string dot = graph.to_dot();
  const auto colour = [&](const std::string& node) {
    const size_t at = dot.find("#", dot.find(node));
    return dot.substr(at, 7);
  };
  EXPECT_EQ(colour("n0 "), colour("n2 "));
  EXPECT_NE(colour("n0 "), colour("n1 "));
}

TEST(ToDot, OfAnEmptyGraphIsADrawing) {
  EXPECT_EQ(Graph().to_dot(),
            "digraph {\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n}\n");
}

TEST(ToDot, EscapesNames) {
  Graph graph;
  const auto building = graph.as_default();
  placeholder(kFloat32, {}, "a\\b");
  EXPECT_NE(graph.to_dot().find(R"(label="a\\b\nPlaceholder")"), std::string::npos)
      << graph.to_dot();
}

}  // namespace
}  // namespace cohort
