#include <gtest/gtest.h>

#include "cohort/ops.h"
#include "ops/variable_ops.h"
#include "support/expect_error.h"
#include "support/sample_graphs.h"

namespace cohort::testing {
namespace {

using internal::CaptureInfo;
using internal::CaptureKind;
using internal::GraphFunction;
using internal::Spec;

void expect_same_nodes(const Graph& a, const Graph& b) {
  const std::vector<NodeInfo> left = a.nodes();
  const std::vector<NodeInfo> right = b.nodes();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].name, right[i].name);
    EXPECT_EQ(left[i].op, right[i].op);
    EXPECT_EQ(left[i].device, right[i].device);
    EXPECT_EQ(left[i].inputs, right[i].inputs);
    EXPECT_EQ(left[i].controls, right[i].controls);
    EXPECT_EQ(left[i].dtypes, right[i].dtypes);
    EXPECT_EQ(left[i].shapes, right[i].shapes);
    EXPECT_STREQ(left[i].site.file, right[i].site.file);
    EXPECT_EQ(left[i].site.line, right[i].site.line);
  }
}

Tensor handle_of(const Variable& variable) {
  return internal::VariableAccess::impl(variable)->handle().handle;
}

TEST(SerializedGraph, IsReadAsItWas) {
  const Graph graph = sample_graph();
  expect_same_nodes(graph, Graph::deserialize(graph.serialize()));
}

TEST(SerializedGraph, IsTheSameBytesAfterReading) {
  const std::string bytes = sample_graph().serialize();
  EXPECT_EQ(Graph::deserialize(bytes).serialize(), bytes);
}

TEST(SerializedGraph, KeepsEveryConstantBitForBit) {
  const NamedTensors values = sample_values();
  const Graph read = Graph::deserialize(sample_graph().serialize());
  const auto& impl = internal::GraphAccess::impl(read);
  for (const auto& [name, value] : values) {
    SCOPED_TRACE(name);
    const Tensor found = impl->node(impl->find(name)).attrs.get<Tensor>("value");
    EXPECT_EQ(found.dtype(), value.dtype());
    EXPECT_EQ(found.shape(), value.shape());
    EXPECT_EQ(found.to_string(), value.to_string());
  }
}

TEST(SerializedGraph, MayBeEmpty) { EXPECT_EQ(Graph::deserialize(Graph().serialize()).size(), 0u); }

TEST(SerializedGraph, CanBeExtendedAfterReading) {
  Graph graph = Graph::deserialize(sample_graph().serialize());
  const auto building = graph.as_default();
  const Tensor more = graph.tensor("x") * 2;
  EXPECT_EQ(more.shape(), (Shape{-1, 4}));
}

TEST(SerializedGraph, KeepsBranchesAndLoops) {
  Graph graph;
  {
    const auto building = graph.as_default();
    const Tensor x = placeholder(kFloat32, {2}, "x");
    const Tensor y = cond(
        sum(x) > 0, [&] { return std::vector<Tensor>{x * 2}; },
        [&] { return std::vector<Tensor>{x - 1}; })[0];
    while_loop([](std::span<const Tensor> s) { return sum(s[0]) < 10; },
               [&](std::span<const Tensor> s) { return std::vector<Tensor>{s[0] + abs(y)}; }, {x});
  }
  const std::string bytes = graph.serialize();
  const Graph read = Graph::deserialize(bytes);
  expect_same_nodes(graph, read);
  EXPECT_EQ(read.serialize(), bytes);
}

TEST(SerializedGraph, KeepsVariables) {
  Graph graph;
  {
    const auto building = graph.as_default();
    Variable v(Tensor({1.f, 2.f}), {.name = "v"});
    v.assign_add(Tensor({1.f, 1.f}));
  }
  const std::string bytes = graph.serialize();
  EXPECT_EQ(Graph::deserialize(bytes).serialize(), bytes);
}

TEST(SerializedGraph, CannotHoldStateOfThisProcess) {
  const Variable variable(Tensor({1.f}));
  Graph graph;
  {
    const auto building = graph.as_default();
    constant(handle_of(variable), "handle");
  }
  EXPECT_ERROR(Code::FailedPrecondition,
               "node 'handle' (Const) cannot be serialized: the tensor is a handle of state",
               graph.serialize());
}

TEST(SerializedFunction, IsTheSameBytesAfterReading) {
  Variable variable(Tensor({2.f, 3.f}), {.name = "factor"});
  const std::string bytes = internal::serialize_function(*sample_function(variable));
  const auto read = internal::deserialize_function(
      bytes, [&](const CaptureInfo&) { return handle_of(variable); });
  EXPECT_EQ(internal::serialize_function(*read), bytes);
}

TEST(SerializedFunction, RunsWithTheVariableThatTheReaderSupplies) {
  Variable variable(Tensor({2.f, 3.f}), {.name = "factor"});
  const std::string bytes = internal::serialize_function(*sample_function(variable));
  Variable other(Tensor({10.f, 20.f}), {.name = "factor"});
  const auto read = internal::deserialize_function(bytes, [&](const CaptureInfo& info) {
    EXPECT_EQ(info.kind, CaptureKind::Variable);
    EXPECT_EQ(info.function, "scale");
    EXPECT_EQ(info.name, "factor");
    EXPECT_EQ(info.spec.dtype, kFloat32);
    EXPECT_EQ(info.spec.shape, (Shape{2}));
    return handle_of(other);
  });
  const Tensor x({{1.f, 1.f}, {2.f, 2.f}});
  const std::vector<Tensor> results = internal::call_inline(*read, {&x, 1});
  EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{10, 20, 20, 40}));
  EXPECT_EQ(results[1].to_vector<float>(), (std::vector<float>{31, 61}));
  EXPECT_EQ(Tensor(other).to_vector<float>(), (std::vector<float>{30, 60}));
  EXPECT_EQ(Tensor(variable).to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(SerializedFunction, AsksForTensorsOfTheGraphAroundIt) {
  Graph graph;
  std::shared_ptr<const GraphFunction> function;
  {
    const auto building = graph.as_default();
    const Tensor outer = placeholder(kFloat32, {2}, "outer");
    function = internal::trace(
        "add", {}, [&](std::span<const Tensor>) { return std::vector<Tensor>{outer + 1}; });
  }
  const auto read = internal::deserialize_function(internal::serialize_function(*function),
                                                   [](const CaptureInfo& info) {
                                                     EXPECT_EQ(info.kind, CaptureKind::Tensor);
                                                     EXPECT_EQ(info.name, "outer");
                                                     return Tensor({1.f, 2.f});
                                                   });
  EXPECT_EQ(internal::call_inline(*read, {})[0].to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST(SerializedFunction, NeedsWhatItCaptured) {
  Variable variable(Tensor({2.f, 3.f}), {.name = "factor"});
  const std::string bytes = internal::serialize_function(*sample_function(variable));
  EXPECT_ERROR(Code::FailedPrecondition, "variable 'factor' of function 'scale'",
               internal::deserialize_function(bytes, {}));
  EXPECT_ERROR(Code::FailedPrecondition, "does not fit",
               internal::deserialize_function(bytes, [](const CaptureInfo&) { return Tensor(1); }));
  EXPECT_ERROR(Code::FailedPrecondition, "nothing",
               internal::deserialize_function(bytes, [](const CaptureInfo&) { return Tensor(); }));
}

class Queue : public internal::Resource {};

TEST(SerializedFunction, CannotCaptureStateWithoutAName) {
  const Tensor queue = internal::make_resource(std::make_shared<Queue>());
  const auto function = internal::trace(
      "drain", {}, [&](std::span<const Tensor>) { return std::vector<Tensor>{group({queue})}; });
  EXPECT_ERROR(Code::FailedPrecondition, "function 'drain' uses state of this process",
               internal::serialize_function(*function));
}

}  // namespace
}  // namespace cohort::testing
