#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "graph/function_graph.h"
#include "ops/element_source.h"

// Graphs and functions as bytes (proto/cohort/graph.proto), for other processes and for files.
//
// The same graph gives the same bytes, and reading bytes that were written here and writing them
// again gives those bytes. Writing throws FailedPrecondition, naming the node, for what belongs to
// this process: state that a constant or a graph's function holds, ops without a signature, two
// variables of one name (they are told apart by nothing else).
//
// Reading trusts nothing: see Graph::deserialize. What a node says of its outputs must agree with
// what its op infers.
namespace cohort::internal {

// The newest format that is written and read.
inline constexpr uint32_t kGraphFormat = 1;
// How many functions may be inside of one another.
inline constexpr int kDeepestNesting = 32;

// Something that a function uses and that does not travel with it.
enum class CaptureKind { Variable, Tensor, Iterator };
struct CaptureInfo {
  std::string function;  // the one that uses it
  CaptureKind kind;
  std::string name;             // the state's, or the tensor's in the graph that it is from: "x:1"
  Spec spec = {kResource, {}};  // of the value; for a variable, of what it holds
  ElementLayout elements = {};  // of an iterator
  std::string dataset = {};     // that the iterator walks over, described
};
// Supplies what stands for it here: the handle of a variable or an iterator, or a tensor of that
// dtype and shape.
using BindCapture = std::function<Tensor(const CaptureInfo&)>;

std::string serialize_graph(const GraphImpl& graph);
std::shared_ptr<GraphImpl> deserialize_graph(std::string_view bytes);

std::string serialize_function(const GraphFunction& function);
std::shared_ptr<const GraphFunction> deserialize_function(std::string_view bytes,
                                                          const BindCapture& bind);

}  // namespace cohort::internal
