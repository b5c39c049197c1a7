#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "graph/graph_impl.h"
#include "graph/wire_format.h"

namespace cohort::internal {

// Untrusted text, made short and printable for a message.
std::string quoted(std::string_view text);

// The function of that name. Throws InvalidArgument when it does not exist.
using FindFunction = std::function<std::shared_ptr<const GraphFunction>(const std::string& name)>;

// Only functions have Argument nodes; only parts of a graph that was cut have names with '_' first.
enum class NodesOf { Graph, Function, Part };

// A graph of these nodes, under the same numbers when inputs come before their consumers. Throws
// InvalidArgument naming the node that is wrong, and why.
std::shared_ptr<GraphImpl> read_nodes(
    const google::protobuf::RepeatedPtrField<message::Node>& nodes, NodesOf kind,
    const FindFunction& find_function);

// The output that "name" or "name:1" names. Throws InvalidArgument.
NodeOutput read_endpoint(const GraphImpl& graph, std::string_view text);

}  // namespace cohort::internal
