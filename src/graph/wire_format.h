#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cohort/graph.pb.h"
#include "graph/graph_impl.h"
#include "tensor/tensor_proto.h"

// Converts values between memory and messages. Writing throws FailedPrecondition for a value that
// belongs to this process; reading throws InvalidArgument. The messages state what is wrong; the
// caller adds where.
namespace cohort::internal {

// The generated messages, which have the names of the types that they describe.
namespace message = ::cohort::graph::proto;

void write_shape(const Shape& shape, message::Shape& out);
Shape read_shape(const message::Shape& in);

void write_spec(const Spec& spec, message::Spec& out);
Spec read_spec(const message::Spec& in);

// The limits of a serialized graph. They bound the memory that reading needs.
inline constexpr int64_t kMaxDocumentBytes = int64_t{1} << 30;
inline constexpr int64_t kMaxStructureBytes = int64_t{1} << 27;  // all but tensors' contents
inline constexpr int64_t kMaxDocumentParts = int64_t{1} << 23;   // texts and messages, all levels

// Walks over the encoding of a Document without allocating memory. Throws InvalidArgument if the
// bytes are not a Document (damaged, an unknown field, larger than the limits), and Unimplemented
// if their format is newer than `newest_format`.
void check_wire(std::string_view bytes, uint32_t newest_format);

// Untrusted text, made short and printable for a message.
std::string quoted(std::string_view text);

// The function of that name. Throws InvalidArgument if it does not exist.
using FindFunction = std::function<FunctionPtr(const std::string& name)>;

// Only functions have Argument nodes; only parts of a graph that was cut have names with '_' first.
enum class NodesOf { Graph, Function, Part };

// A graph of these nodes, under the same numbers if inputs come before their consumers. Throws
// InvalidArgument, naming the wrong node and the reason.
std::shared_ptr<GraphImpl> read_nodes(
    const google::protobuf::RepeatedPtrField<message::Node>& nodes, NodesOf kind,
    const FindFunction& find_function);

// The output with the name "name" or "name:1". Throws InvalidArgument.
NodeOutput read_node_output(const GraphImpl& graph, std::string_view text);

}  // namespace cohort::internal
