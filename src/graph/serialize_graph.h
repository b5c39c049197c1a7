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
// again gives those bytes. Writing throws FailedPrecondition, naming the node, for state that
// belongs to this process: state that a constant or a graph's function holds, and ops without a
// signature. Variables of one label that functions capture get different names, see write_capture.
//
// Reading trusts nothing: see Graph::deserialize. The outputs that a node declares must agree with
// what its op infers.
namespace cohort::internal {

// The newest format that is written and read.
inline constexpr uint32_t kGraphFormat = 1;
// How deep functions may be nested.
inline constexpr int kDeepestNesting = 32;

// State or a tensor that a function uses and that is not serialized with the function.
enum class CaptureKind { Variable, Tensor, Iterator };
struct CaptureInfo {
  std::string function;  // that uses it
  CaptureKind kind;
  std::string name;             // of the state, or of the tensor in its graph: "x:1"
  Spec spec = {kResource, {}};  // of the value; for a variable, of its content
  ElementLayout elements = {};  // of an iterator
  std::string dataset = {};     // that the iterator walks over, described
};
// Supplies the capture in this process: the handle of a variable or an iterator, or a tensor of
// that dtype and shape.
using BindCapture = std::function<Tensor(const CaptureInfo&)>;

std::string serialize_graph(const GraphImpl& graph);
std::shared_ptr<GraphImpl> deserialize_graph(std::string_view bytes);
// Reads a part of a graph that was cut. Its reserved names are those that cutting adds.
std::shared_ptr<GraphImpl> deserialize_part(std::string_view bytes);

// Writes a graph that grows as a series of documents: each has the nodes that were added since the
// one before.
class GraphWriter {
 public:
  explicit GraphWriter(std::shared_ptr<const GraphImpl> graph);
  ~GraphWriter();
  // Whether the graph has nodes that no document has.
  bool has_more() const;
  // Throws what serialize_graph throws. Then the next call writes the same nodes.
  std::string next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Joins the documents of a GraphWriter to a graph again.
class GraphReader {
 public:
  GraphReader();
  ~GraphReader();
  // The graph so far with the nodes that the document adds; nodes keep their numbers. Throws what
  // deserialize_graph throws, and then adds nothing.
  std::shared_ptr<GraphImpl> add(std::string_view bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string serialize_function(const GraphFunction& function);
FunctionPtr deserialize_function(std::string_view bytes, const BindCapture& bind);

}  // namespace cohort::internal
