#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "cohort/graph.h"
#include "graph/growing_list.h"
#include "ops/dispatch.h"
#include "ops/variable_cell.h"

namespace cohort::internal {

// Output `output` of node `node`.
struct NodeOutput {
  int node = -1;
  int output = 0;

  friend bool operator==(const NodeOutput&, const NodeOutput&) = default;
  friend auto operator<=>(const NodeOutput&, const NodeOutput&) = default;
};

struct Node {
  std::string name;
  const OpDef* op = nullptr;
  Attrs attrs = {};
  std::vector<NodeOutput> inputs = {};
  std::vector<int> controls = {};                // nodes that run before, for their effect
  DeviceName device = {};                        // what was asked for
  std::vector<std::string> colocated_with = {};  // names of nodes that it must be placed with
  Specs outputs = {};
  Site site = {};
};

// The nodes of a graph, numbered in the order of their making, so that inputs come before their
// consumers. Thread-safe; a reference to a node stays valid and the node never changes, and looking
// at nodes takes no lock.
class GraphImpl : public GraphBuilder, public std::enable_shared_from_this<GraphImpl> {
 public:
  std::vector<Tensor> append(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs,
                             const Specs& outputs, Site site) override;

  // The same under a name of the user's choice, made unique. Throws InvalidArgument when it cannot
  // be a node's.
  std::vector<Tensor> append_named(std::string_view name, const OpDef& op,
                                   std::span<const Tensor> inputs, Attrs attrs,
                                   const Specs& outputs, Site site);
  bool makes_variables() const override { return true; }

  // Adds a node as it is, under its own name. Throws AlreadyExists when the name is taken.
  int add(Node node);
  // The same for a name that is known to be free: nobody looks nodes of a cut graph up by name.
  int add_unindexed(Node node);

  int size() const;
  const Node& node(int id) const;
  // -1 when there is none.
  int find(std::string_view name) const;
  // `name`, or the first of name_1, name_2, ... that is free; taken from then on.
  std::string unique_name(std::string_view name);
  // What unique_name would give.
  std::string next_name(std::string_view name) const;

  // The symbol of an output; the same object each time.
  Tensor symbol(NodeOutput node_output) const;
  // The output behind a symbol of this graph. Throws InvalidArgument for any other tensor.
  NodeOutput node_output(const Tensor& symbol) const;
  bool owns(const Tensor& tensor) const;

  // The symbol that stands for `tensor` in this graph: itself, or that of a constant made for it.
  virtual Tensor import(const Tensor& tensor);

  // The nodes as op calls, in order: what a backward walk takes.
  std::vector<OpCall> calls() const;

  // What `make` adds, which only asks for something: added at the first call with this key and
  // given again at later ones, so that asking does not make the graph grow. A finalized graph takes
  // it, too. Where control dependencies are open, and inside a function, each call adds its own.
  // `make` may be code of the user's and runs without a lock: of several threads that ask for the
  // first time together each adds its own, and all get one of them.
  Tensor keep(const std::string& key, const std::function<Tensor()>& make);
  // Whether the open guards say what nodes of this graph wait for.
  bool has_open_controls() const;

  void finalize();

  // Variables made in this graph, in order, and the nodes that give them their first values.
  struct VariableRecord {
    std::shared_ptr<VariableImpl> variable;  // null in a graph that was read, until somebody asks
    Tensor initializer;
    VariableHandle handle;
    VariableOptions options;
  };
  void add_variable(VariableRecord record);
  // Makes the variables that are not there yet by `make`.
  using MakeVariable = std::function<std::shared_ptr<VariableImpl>(const VariableRecord&)>;
  std::vector<VariableRecord> variables(const MakeVariable& make);
  std::vector<VariableRecord> variables() const;

  // From here on node `id`, a variable that all workers share, goes to the task that the first
  // variable asks for, which may be made later. A node that asks for a job, or is colocated, does
  // not: it has its place.
  void follow_first_variable(int id);
  bool follows_first_variable(int id) const;
  // The handle of the first variable that follows no other; -1 before there is one.
  int first_variable() const;

  // What a module above keeps with the graph: one object per type, made when first asked for. It is
  // not part of the serialized form.
  template <typename T>
  T& companion() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& kept = companions_[std::type_index(typeid(T))];
    if (!kept) kept = std::make_shared<T>();
    return *std::static_pointer_cast<T>(kept);
  }

 protected:
  // Nodes that must run before one with these inputs for reasons of state. Plain graphs leave that
  // to the user.
  virtual std::vector<int> effects_before(const OpDef&, std::span<const NodeOutput>) { return {}; }
  virtual void note_effect(int /*node*/) {}

 private:
  // A name that is taken: by a node, or by a name scope.
  struct TakenName {
    int node = -1;
    int next_suffix = 1;  // where the search for a free one like it goes on
  };

  // The outputs behind the tensors, imported where they are not this graph's.
  std::vector<NodeOutput> endpoints_of(std::span<const Tensor> inputs);

  // All nodes by name, those added unindexed too. The mutex is held.
  std::unordered_map<std::string, TakenName>& names() const;

  // The node's outputs as symbols, made when first asked for; most nodes of a graph that was cut or
  // folded never are. The mutex is held.
  const std::vector<Tensor>& symbols_of(int id) const;

  GrowingList<Node> nodes_;                           // added to with the mutex held
  mutable std::recursive_mutex mutex_;                // importing an input appends a constant
  mutable std::vector<std::vector<Tensor>> symbols_;  // guarded by mutex_, as all below
  mutable std::unordered_map<std::string, TakenName> names_;
  mutable int num_indexed_ = 0;  // nodes before this one are in names_
  std::vector<VariableRecord> variables_;
  std::set<int> followers_;  // of the first variable
  std::map<std::type_index, std::shared_ptr<void>> companions_;
  std::map<std::string, Tensor> kept_;
  bool finalized_ = false;
};

struct GraphAccess {
  static const std::shared_ptr<GraphImpl>& impl(const Graph& graph) { return graph.impl_; }
  static Graph make(std::shared_ptr<GraphImpl> impl) { return Graph(std::move(impl)); }
};

// The graph that a symbol belongs to. Throws InvalidArgument when `tensor` is concrete, and
// FailedPrecondition when its graph is gone.
std::shared_ptr<GraphImpl> graph_of(const Tensor& tensor);

// "name", or "name:1" for another output than the first.
std::string output_name(const GraphImpl& graph, NodeOutput node_output);

// Whether `name` may name a node: letters, digits and _ . \ / - after a first letter, digit or dot.
bool is_node_name(std::string_view name);

}  // namespace cohort::internal
