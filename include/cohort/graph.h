#pragma once

#include "cohort/gradient.h"
#include "cohort/internal/thread_scope.h"

namespace cohort {

// NodeInfo describes one node of a graph. Graph::nodes() returns it.
struct NodeInfo {
  std::string name;                   // "layer/MatMul"
  std::string op;                     // "MatMul"
  std::string device;                 // as requested; empty: any
  std::vector<std::string> inputs;    // "x", "split:1"
  std::vector<std::string> controls;  // names of the nodes that run before this node
  std::vector<DType> dtypes;          // of the outputs
  std::vector<Shape> shapes;
  Site site;  // the line of the program that created the node
};

// Graph holds a computation that a Session runs, any number of times. Each node has an op, inputs
// and a device. While a scope of as_default() is open, the op functions that its thread calls add
// nodes instead of computing. So does an op function whose input is a tensor of a graph.
//
//   Graph graph;
//   auto building = graph.as_default();
//   Tensor a = placeholder(kFloat32, {2, 2}, "a");
//   Tensor b = matmul(a, a);
//
// Nodes are never removed. Copies share one graph. Thread-safe, but the order of nodes that two
// threads add at the same time is not defined.
class Graph {
 public:
  Graph();

  // While a Scope exists, the op functions that its thread calls add nodes to the graph.
  class [[nodiscard]] Scope : public internal::ThreadScope {
   public:
    explicit Scope(std::shared_ptr<internal::GraphImpl> graph);
  };
  Scope as_default();

  // Returns a tensor by its name, "name" or "name:1". Throws NotFound.
  Tensor tensor(std::string_view name) const;
  std::vector<NodeInfo> nodes() const;
  size_t size() const;

  // Ends the building: adding a node then throws FailedPrecondition.
  void finalize();

  // Convert a graph to portable bytes and back. deserialize() checks names, ops, attributes,
  // inputs, shapes, cycles and sizes. It throws InvalidArgument, naming the wrong node, and
  // Unimplemented if a newer version of Cohort wrote the bytes.
  std::string serialize() const;
  static Graph deserialize(std::string_view bytes);

  // Returns the graph in the dot language of Graphviz.
  std::string to_dot() const;

  friend bool operator==(const Graph& a, const Graph& b) { return a.impl_ == b.impl_; }

 private:
  friend struct internal::GraphAccess;
  explicit Graph(std::shared_ptr<internal::GraphImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<internal::GraphImpl> impl_;
};

// Return whether this thread builds a graph, and which. get_default_graph() throws
// FailedPrecondition if the thread builds none.
bool building_graph();
Graph get_default_graph();

// Adds a tensor that a run must feed if it needs it. An unknown size in `shape` is -1.
Tensor placeholder(DType dtype, const Shape& shape = Shape::unknown(),
                   std::string_view name = "Placeholder", Site site = Site::here());
inline Tensor placeholder(const TensorSpec& spec, std::string_view name = "Placeholder",
                          Site site = Site::here()) {
  return placeholder(spec.dtype, spec.shape, name, site);
}
// Adds a tensor that is `value` unless a run feeds it.
Tensor placeholder_with_default(const Tensor& value, const Shape& shape,
                                std::string_view name = "PlaceholderWithDefault",
                                Site site = Site::here());
// Adds `value` as a node, or returns `value` if this thread builds no graph. Op functions call this
// function for inputs that have a value.
Tensor constant(const Tensor& value, std::string_view name = "Const", Site site = Site::here());

// Guards change how this thread adds nodes, while they exist. So do the scopes of
// Graph::as_default() and device(). They must end in reverse order: close() throws
// FailedPrecondition, and leaves the guard open, if a guard that was opened later is still open.
// The destructor logs that error and ends the guard.

// NameScope puts "name/" before the names of nodes. A name that is taken gets a number: "name_1".
// An empty name removes all prefixes.
class [[nodiscard]] NameScope : public internal::ThreadScope {
 public:
  explicit NameScope(std::string_view name);
};
inline NameScope name_scope(std::string_view name) { return NameScope(name); }

// ControlDependencies makes new nodes run only after the given nodes.
class [[nodiscard]] ControlDependencies : public internal::ThreadScope {
 public:
  explicit ControlDependencies(const std::vector<Tensor>& before);
};
inline ControlDependencies control_dependencies(const std::vector<Tensor>& before) {
  return ControlDependencies(before);
}

// Colocation places new nodes on the device of `tensor`. Device scopes do not apply to them.
class [[nodiscard]] Colocation : public internal::ThreadScope {
 public:
  explicit Colocation(const Tensor& tensor);
};
inline Colocation colocate_with(const Tensor& tensor) { return Colocation(tensor); }

// Container puts state that this thread adds to a graph (variables, queues, accumulators) into a
// named container while the guard exists. Equal names in two containers mean two different states,
// and reset() clears one container at a time. "" is the default container, which has the name of
// the task's job. Throws InvalidArgument if the text is not a valid name.
//
//   const Graph::Scope building = graph.as_default();
//   const Container mine = container("experiment_1");
//   Variable weights(zeros({2, 3}), {.name = "weights"});
class [[nodiscard]] Container : public internal::ThreadScope {
 public:
  explicit Container(std::string_view name);
};
inline Container container(std::string_view name) { return Container(name); }

// Adds nodes that compute d(ys)/d(xs). Returns one gradient for each x, which is undefined if no y
// depends on it.
Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                    const GradientOptions& options = {}, Site site = Site::here());
Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Variable>& xs,
                    const GradientOptions& options = {}, Site site = Site::here());
// The same for lists in braces: gradients({loss}, {w, b}).
Gradients gradients(const std::vector<Tensor>& ys, std::initializer_list<Tensor> xs,
                    const GradientOptions& options = {}, Site site = Site::here());
Gradients gradients(const std::vector<Tensor>& ys, std::initializer_list<Variable> xs,
                    const GradientOptions& options = {}, Site site = Site::here());

}  // namespace cohort
