#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/gradient.h"
#include "cohort/site.h"
#include "cohort/tensor.h"

namespace cohort {

namespace internal {
class GraphImpl;
struct GraphAccess;
}  // namespace internal

// A node as its reader sees it.
struct NodeInfo {
  std::string name;                   // "layer/MatMul"
  std::string op;                     // "MatMul"
  std::string device;                 // as asked for; empty = anywhere
  std::vector<std::string> inputs;    // "x", "split:1"
  std::vector<std::string> controls;  // names of nodes that run before
  std::vector<DType> dtypes;          // of the outputs
  std::vector<Shape> shapes;
  Site site;  // where in the program it was made
};

// A computation that was written down instead of run: nodes that name an op, its inputs and where
// it is to run. Op functions add nodes to it while a scope of as_default() is open in the thread,
// and whenever one of their inputs is a symbol of it; a Session runs it, any number of times.
//
// A handle: copies are the same graph. Nodes are only ever added. Thread-safe, but what one thread
// adds while another builds comes in no particular order.
class Graph {
 public:
  Graph();

  // While it lives, this thread's op functions add to the graph.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(std::shared_ptr<internal::GraphImpl> graph);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void close();

   private:
    uint64_t ticket_;
  };
  Scope as_default();

  // "name" or "name:1". Throws NotFound.
  Tensor tensor(std::string_view name) const;
  std::vector<NodeInfo> nodes() const;
  size_t size() const;

  // From here on adding a node throws FailedPrecondition.
  void finalize();

  // Portable bytes, and a graph from them. Reading trusts nothing: names, ops, attributes, inputs,
  // shapes, cycles and sizes are checked, and what is wrong is InvalidArgument naming the node;
  // bytes of a newer format are Unimplemented.
  std::string serialize() const;
  static Graph deserialize(std::string_view bytes);

  // A picture for Graphviz.
  std::string to_dot() const;

  friend bool operator==(const Graph& a, const Graph& b) { return a.impl_ == b.impl_; }

 private:
  friend struct internal::GraphAccess;
  explicit Graph(std::shared_ptr<internal::GraphImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<internal::GraphImpl> impl_;
};

// Whether this thread is building a graph, and which. get_default_graph throws FailedPrecondition
// when it builds none.
bool building_graph();
Graph get_default_graph();

// A value that every run must feed. Unknown sizes are -1.
Tensor placeholder(DType dtype, const Shape& shape = Shape::unknown(),
                   std::string_view name = "Placeholder", Site site = Site::here());
// One that has `value` unless it is fed.
Tensor placeholder_with_default(const Tensor& value, const Shape& shape,
                                std::string_view name = "PlaceholderWithDefault",
                                Site site = Site::here());
// A tensor as a node; op functions do this by themselves for concrete inputs.
Tensor constant(const Tensor& value, std::string_view name = "Const", Site site = Site::here());

// Guards. While one lives, nodes that this thread adds are affected. They end in reverse order, as
// do those of Graph::as_default and device(): close() throws FailedPrecondition when one that was
// opened later is still open, and leaves the guard open; the destructor logs that and ends it.

// Names begin with "name/". A name that is taken gets "_1"; "" goes back to no prefix.
class [[nodiscard]] NameScope {
 public:
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  void close();

 private:
  uint64_t ticket_;
};
inline NameScope name_scope(std::string_view name) { return NameScope(name); }

// Nodes run only after these have run.
class [[nodiscard]] ControlDependencies {
 public:
  explicit ControlDependencies(const std::vector<Tensor>& before);
  ~ControlDependencies();
  ControlDependencies(const ControlDependencies&) = delete;
  ControlDependencies& operator=(const ControlDependencies&) = delete;
  void close();

 private:
  uint64_t ticket_;
};
inline ControlDependencies control_dependencies(const std::vector<Tensor>& before) {
  return ControlDependencies(before);
}

// Nodes go wherever `tensor` goes; device scopes do not apply to them.
class [[nodiscard]] Colocation {
 public:
  explicit Colocation(const Tensor& tensor);
  ~Colocation();
  Colocation(const Colocation&) = delete;
  Colocation& operator=(const Colocation&) = delete;
  void close();

 private:
  uint64_t ticket_ = 0;
};
inline Colocation colocate_with(const Tensor& tensor) { return Colocation(tensor); }

// d(ys)/d(xs), as new nodes of the graph: one per x, undefined where no y depends on it.
Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Tensor>& xs,
                    const GradientOptions& options = {});
Gradients gradients(const std::vector<Tensor>& ys, const std::vector<Variable>& xs,
                    const GradientOptions& options = {});

}  // namespace cohort
