#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <vector>

#include "cohort/graph.h"
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
  std::vector<int> controls = {};                // nodes that must run before this node
  DeviceName device = {};                        // as requested
  std::vector<std::string> colocated_with = {};  // names of nodes that it must be placed with
  Specs outputs = {};
  Site site = {};
};

// A list that only grows. Elements never move, so references to them stay valid, and reading takes
// no lock: any number of threads may read while one adds.
template <typename T>
class GrowingList {
 public:
  size_t size() const { return size_.load(std::memory_order_acquire); }

  const T& at(size_t i) const {
    if (i >= size()) throw std::out_of_range("GrowingList");
    const Place place(i);
    return chunks_[place.chunk][place.offset];
  }

  // For one thread at a time.
  void push_back(T value) {
    const size_t next = size_.load(std::memory_order_relaxed);
    const Place place(next);
    if (!chunks_[place.chunk]) chunks_[place.chunk] = std::make_unique<T[]>(place.length());
    chunks_[place.chunk][place.offset] = std::move(value);
    size_.store(next + 1, std::memory_order_release);
  }

 private:
  static constexpr size_t kFirstLength = 16;

  // Each chunk is twice as long as the one before.
  struct Place {
    explicit Place(size_t i)
        : chunk(std::bit_width((i + kFirstLength) / kFirstLength) - 1),
          offset(i + kFirstLength - length()) {}
    size_t length() const { return kFirstLength << chunk; }

    size_t chunk;
    size_t offset;
  };

  std::array<std::unique_ptr<T[]>, 40> chunks_;  // chunks within size_ are constant
  std::atomic<size_t> size_{0};
};

// GraphImpl holds the nodes of a graph, numbered in the order of their creation, so that inputs
// come before their consumers. A node never changes, a reference to a node stays valid, and reading
// nodes takes no lock. Thread-safe.
class GraphImpl : public GraphBuilder, public std::enable_shared_from_this<GraphImpl> {
 public:
  std::vector<Tensor> append(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs,
                             const Specs& outputs, Site site) override;

  // Adds a node under a name of the user's choice, made unique. Throws InvalidArgument if the text
  // is not a valid name.
  std::vector<Tensor> append_named(std::string_view name, const OpDef& op,
                                   std::span<const Tensor> inputs, Attrs attrs,
                                   const Specs& outputs, Site site);
  bool makes_variables() const override { return true; }

  // Adds a node under exactly its own name. Throws AlreadyExists if the name is taken.
  int add(Node node);
  // Adds a node whose name is known to be free. No code looks up nodes of a cut graph by name.
  int add_unindexed(Node node);

  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int id) const { return nodes_.at(static_cast<size_t>(id)); }
  const Spec& spec(NodeOutput node_output) const {
    return node(node_output.node).outputs[static_cast<size_t>(node_output.output)];
  }
  Specs specs(std::span<const NodeOutput> node_outputs) const {
    Specs all;
    for (const NodeOutput node_output : node_outputs) all.push_back(spec(node_output));
    return all;
  }
  bool is_handle(NodeOutput node_output) const { return spec(node_output).dtype == kResource; }
  // The number of the node with that name, or -1.
  int find(std::string_view name) const;
  // The output with the name "name" or "name:1"; nullopt if it does not exist.
  std::optional<NodeOutput> find_output(std::string_view name) const;
  // Reserves and returns `name`, or the first free one of name_1, name_2, ...
  std::string unique_name(std::string_view name);
  // The name that unique_name would return, without reserving it.
  std::string next_name(std::string_view name) const;

  // The symbol of an output; the same object each time.
  Tensor symbol(NodeOutput node_output) const;
  std::vector<Tensor> symbols(std::span<const NodeOutput> node_outputs) const {
    std::vector<Tensor> all;
    for (const NodeOutput node_output : node_outputs) all.push_back(symbol(node_output));
    return all;
  }
  // The output that a symbol of this graph stands for. Throws InvalidArgument for any other tensor.
  NodeOutput node_output(const Tensor& symbol) const;
  bool owns(const Tensor& tensor) const;

  // The symbol for `tensor` in this graph: `tensor` itself, or the symbol of a new constant.
  virtual Tensor import(const Tensor& tensor);

  // The nodes as op calls, in order, for a backward walk.
  std::vector<OpCall> calls() const;

  // The symbol of a query, which `make` adds; a query has no effects. The first call with a key
  // adds the query and later calls return the same symbol, so that repeated queries do not make the
  // graph grow. A finalized graph takes a query, too. If control dependencies are open, and inside
  // a function, each call adds its own query. `make` may be code of the user and runs without a
  // lock: if several threads make the first call together, each adds a query, and all get the same
  // symbol.
  Tensor keep(const std::string& key, const std::function<Tensor()>& make);

  void finalize() {
    const std::lock_guard lock(mutex_);
    finalized_ = true;
  }

  // Variables made in this graph, in order, and the nodes that give them their first values.
  struct VariableRecord {
    std::shared_ptr<VariableImpl> variable;  // null until requested, in a graph that was read
    Tensor initializer;
    VariableHandle handle;
    VariableOptions options;
  };
  void add_variable(VariableRecord record) {
    const std::lock_guard lock(mutex_);
    variables_.push_back(std::move(record));
  }
  // Returns all variables; `make` makes each one that does not exist yet.
  using MakeVariable = std::function<std::shared_ptr<VariableImpl>(const VariableRecord&)>;
  std::vector<VariableRecord> variables(const MakeVariable& make);
  std::vector<VariableRecord> variables() const {
    const std::lock_guard lock(mutex_);
    return variables_;
  }

  // Places node `id`, a variable that all workers share, on the task that the first variable
  // requests; the first variable may be made later. A node that requests a job, or is colocated,
  // keeps its own place.
  void follow_first_variable(int id);
  bool follows_first_variable(int id) const {
    const std::lock_guard lock(mutex_);
    return followers_.contains(id);
  }
  // The node of the handle of the first variable that does not follow another; -1 before that
  // variable is made.
  int first_variable() const;

  // An object of a higher module that lives with the graph: one per type, made at the first
  // request. It is not part of the serialized form.
  template <typename T>
  T& companion() {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<void>& kept = companions_[std::type_index(typeid(T))];
    if (!kept) kept = std::make_shared<T>();
    return *std::static_pointer_cast<T>(kept);
  }

 protected:
  // Nodes that must run before a node with these inputs, for reasons of state. In a plain graph the
  // user sets this order.
  virtual std::vector<int> effects_before(const OpDef&, std::span<const NodeOutput>) { return {}; }
  virtual void note_effect(int /*node*/) {}

 private:
  // A name that is taken: by a node, or by a name scope.
  struct TakenName {
    int node = -1;
    int next_suffix = 1;  // where the search for the next free name begins
  };

  // The outputs that the tensors stand for; tensors of other origin are imported.
  std::vector<NodeOutput> node_outputs_of(std::span<const Tensor> inputs);

  // All nodes by name, also the unindexed ones. The caller holds the mutex.
  std::unordered_map<std::string, TakenName>& names() const;

  // The symbols of the node's outputs, made at the first request: most nodes of a cut or folded
  // graph never need them. The caller holds the mutex.
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

// A handle node in the graph being built, and the name of the state that it stands for.
struct NamedHandle {
  Tensor handle;
  std::string state;
};

// Adds a node of `op`, which returns the handle of the state that the run's device keeps under
// `shared_name`, or under the node's name if `shared_name` is empty. `attrs` are those of the op
// without container and shared_name. The node has no control inputs, even if guards are open.
// Throws FailedPrecondition if no graph is being built.
NamedHandle add_handle(const OpDef& op, std::string_view name, const std::string& shared_name,
                       Attrs attrs, Site site);

// GraphImpl::keep() in the graph of the symbols `about`: the same symbols and the same `what` give
// the same query. If one of the tensors is a value, each call runs `make`.
Tensor keep_about(std::string_view what, const std::vector<Tensor>& about,
                  const std::function<Tensor()>& make);

// A node that reads a property of the state behind the handle. All calls share one node.
Tensor keep_question(const OpDef& op, const Tensor& handle, Site site);

// The device that node `id` requests: its own request, or that of the node it is colocated with.
DeviceName device_asked_for(const GraphImpl& graph, int id);
// The node's own request only.
DeviceName own_request(const GraphImpl& graph, int id);

}  // namespace cohort::internal
