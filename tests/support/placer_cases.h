#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "graph/placer.h"
#include "support/expect_error.h"
#include "support/find_op.h"

// What the tests of the placer share: graphs and their places as rows of tables.

namespace cohort::internal {

using Names = std::vector<std::string>;

// Ops stand for their kind: what matters here is what goes in and comes out.
constexpr OpDef make_op(std::string_view name, Traits traits = {}) {
  return {.name = name,
          .inputs = {0, kAnyNumber},
          .dtypes = kAnyType,
          .infer = nullptr,
          .compute = nullptr,
          .gradient = nullptr,
          .traits = traits};
}
inline constexpr OpDef kVarOp = make_op("Var");
inline constexpr OpDef kTextOp = make_op("Text");
inline constexpr OpDef kPlainOp = make_op("Op");
inline constexpr OpDef kHostOp = make_op("Host", Trait::HostOnly);

struct NodeRow {
  std::string name;
  std::string device = "";
  Names inputs = {};
  Names with = {};              // colocated with these
  const OpDef* op = &kPlainOp;  // kVarOp gives a handle, kTextOp a string
};

inline NodeRow var(std::string name, std::string device = "") {
  return {std::move(name), std::move(device), {}, {}, &kVarOp};
}
inline NodeRow text(std::string name, std::string device = "", Names inputs = {}) {
  return {std::move(name), std::move(device), std::move(inputs), {}, &kTextOp};
}
inline NodeRow host_only(std::string name, std::string device = "", Names inputs = {}) {
  return {std::move(name), std::move(device), std::move(inputs), {}, &kHostOp};
}
inline NodeRow looks(std::string name, std::string op, Names inputs, std::string device = "") {
  return {std::move(name), std::move(device), std::move(inputs), {}, &find_op(op)};
}

inline DType dtype_of(const OpDef& op) {
  if (&op == &kVarOp) return kResource;
  return &op == &kTextOp ? kString : kFloat32;
}

inline void append(GraphImpl& graph, const std::vector<NodeRow>& rows) {
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
inline std::string full(const std::string& brief) {
  const size_t colon = brief.find(':');
  const size_t slash = brief.find('/');
  return fmt::format("/job:{}/replica:0/task:{}/device:{}", brief.substr(0, colon),
                     brief.substr(colon + 1, slash - colon - 1), brief.substr(slash + 1));
}

inline PlacementOptions on(const Names& devices, bool soft = false) {
  PlacementOptions options;
  for (const std::string& device : devices)
    options.devices.push_back(DeviceName::parse(full(device)));
  options.home = options.devices.empty() ? DeviceName{} : options.devices.front();
  options.allow_soft_placement = soft;
  options.hint = "give the session a target";
  return options;
}

inline const Names kHost = {"localhost:0/CPU:0", "localhost:0/CPU:1"};
inline const Names kGpuHost = {"localhost:0/CPU:0", "localhost:0/CPU:1", "localhost:0/GPU:0",
                               "localhost:0/GPU:1"};
// The session's own task is worker 1.
inline const Names kCluster = {"worker:1/CPU:0", "worker:0/CPU:0", "worker:10/CPU:0",
                               "ps:0/CPU:0",     "ps:2/CPU:0",     "ps:10/CPU:0"};
inline const Names kGpuCluster = {"worker:1/CPU:0", "worker:0/CPU:0", "worker:0/GPU:0",
                                  "ps:0/CPU:0"};

inline std::map<std::string, std::string> place(const std::vector<NodeRow>& rows,
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

inline void expect_placed(const std::vector<Row>& table, bool soft) {
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

inline void expect_refused(const std::vector<ErrorRow>& table, bool soft) {
  for (const ErrorRow& row : table) {
    const Status status = error_of([&] { place(row.nodes, on(row.devices, soft)); });
    EXPECT_EQ(status.code, Code::InvalidArgument) << row.fact;
    for (const std::string& fragment : row.fragments) {
      EXPECT_NE(status.message.find(fragment), std::string::npos)
          << row.fact << ": no \"" << fragment << "\" in: " << status.message;
    }
  }
}

// Rows: the same two requests joined by colocation, by one consumer of two resources, and as two
// consumers of one resource.
inline std::vector<NodeRow> colocated(const std::string& a, const std::string& b) {
  return {{"a", a}, {"b", b, {}, {"a"}}};
}
inline std::vector<NodeRow> two_resources(const std::string& a, const std::string& b) {
  return {var("a", a), var("b", b), {"both", "", {"a", "b"}}};
}
inline std::vector<NodeRow> two_consumers(const std::string& a, const std::string& b) {
  return {var("v"), {"a", a, {"v"}}, {"b", b, {"v"}}};
}

}  // namespace cohort::internal
