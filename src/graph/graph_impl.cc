#include "graph/graph_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/raise.h"
#include "base/site_scope.h"
#include "base/thread_context.h"
#include "graph/scopes.h"
#include "ops/all_ops.h"
#include "tensor/devices.h"
#include "tensor/memory.h"

namespace cohort::internal {
namespace {

// Control inputs from the open guards, those of another graph left out.
std::vector<int> scoped_controls(const GraphImpl& graph) {
  std::vector<int> controls;
  for (const Tensor& tensor : open_controls()) {
    if (graph.owns(tensor)) controls.push_back(graph.node_output(tensor).node);
  }
  return controls;
}

// The place of a new node: with the node that it is colocated with, otherwise where the device
// scopes say.
void place(const GraphImpl& graph, Node& node) {
  const auto& anchors = build_scopes().colocations;
  for (size_t i = 0; i < anchors.size(); ++i) {
    if (!graph.owns(anchors[i].tensor)) continue;
    if (anchors[i].alone) node.colocated_with.clear();
    node.colocated_with.push_back(graph.node(graph.node_output(anchors[i].tensor).node).name);
  }
  if (node.colocated_with.empty()) node.device = requested_device(node.name, node.op->name);
}

// A group waits for its inputs and does not take their values, so that values of other tasks stay
// there. It takes a placeholder: where the placeholder is fed, its node does not run.
void wait_for_inputs(const GraphImpl& graph, Node& node) {
  const auto is_waited_for = [&](NodeOutput input) {
    return !graph.node(input.node).op->traits.has(Trait::Placeholder);
  };
  for (const NodeOutput input : node.inputs) {
    if (is_waited_for(input)) node.controls.push_back(input.node);
  }
  std::erase_if(node.inputs, is_waited_for);
}

std::string device_of_symbol(const SymbolBody& symbol) {
  const auto graph = std::dynamic_pointer_cast<GraphImpl>(symbol.builder.lock());
  return graph ? device_asked_for(*graph, symbol.node).to_string() : "";
}

// The graph to which this thread adds a query, finalized or not; see keep().
constinit ContextSlot<const GraphImpl*> asked_graph;

void make_unique(std::vector<int>& ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

bool is_node_name(std::string_view name) {
  const auto first = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.'; };
  const auto other = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '\\' || c == '/' || c == '-';
  };
  return !name.empty() && first(static_cast<unsigned char>(name[0])) &&
         std::ranges::all_of(name, other);
}

std::vector<Tensor> GraphImpl::append(const OpDef& op, std::span<const Tensor> inputs, Attrs attrs,
                                      const Specs& outputs, Site site) {
  return append_named(op.name, op, inputs, std::move(attrs), outputs, site);
}

std::vector<Tensor> GraphImpl::append_named(std::string_view name, const OpDef& op,
                                            std::span<const Tensor> inputs, Attrs attrs,
                                            const Specs& outputs, Site site) {
  if (!is_node_name(name)) {
    raise(
        Code::InvalidArgument,
        "[Graph] '{}' is not a node's name; use letters, digits and _ . - / after a first letter, "
        "digit or dot",
        name);
  }
  std::vector<NodeOutput> node_outputs = node_outputs_of(inputs);
  Node node{.name = unique_name(name_prefix() + std::string(name)),
            .op = &op,
            .attrs = std::move(attrs),
            .inputs = std::move(node_outputs),
            .controls = scoped_controls(*this),
            .outputs = outputs,
            .site = caller_of(site)};
  place(*this, node);  // asks the user's device functions, so the mutex is not held
  const std::lock_guard lock(mutex_);
  if (&op == &kGroup && makes_variables()) wait_for_inputs(*this, node);
  for (const int before : effects_before(op, node.inputs)) node.controls.push_back(before);
  make_unique(node.controls);
  const int id = add(std::move(node));
  note_effect(id);
  return symbols_of(id);
}

std::vector<NodeOutput> GraphImpl::node_outputs_of(std::span<const Tensor> inputs) {
  // A function's graph notes what it imports. In others the constants that are added ask the user's
  // device functions, so the mutex is not held.
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!makes_variables()) lock.lock();
  std::vector<NodeOutput> node_outputs;
  for (const Tensor& input : inputs) node_outputs.push_back(node_output(import(input)));
  return node_outputs;
}

int GraphImpl::add(Node node) {
  const std::lock_guard lock(mutex_);
  if (finalized_ && asked_graph.get() != this) {
    raise(Code::FailedPrecondition, "[Graph] node '{}' cannot be added: the graph is finalized",
          node.name);
  }
  TakenName& name = names()[node.name];
  if (name.node >= 0) {
    raise(Code::AlreadyExists, "[Graph] a node '{}' already exists", node.name);
  }
  name.node = size();
  ++num_indexed_;
  return add_unindexed(std::move(node));
}

int GraphImpl::add_unindexed(Node node) {
  const std::lock_guard lock(mutex_);
  nodes_.push_back(std::move(node));
  return size() - 1;
}

std::unordered_map<std::string, GraphImpl::TakenName>& GraphImpl::names() const {
  for (; num_indexed_ < size(); ++num_indexed_) {
    names_[node(num_indexed_).name].node = num_indexed_;
  }
  return names_;
}

const std::vector<Tensor>& GraphImpl::symbols_of(int id) const {
  if (static_cast<size_t>(id) >= symbols_.size()) symbols_.resize(nodes_.size());
  std::vector<Tensor>& symbols = symbols_[static_cast<size_t>(id)];
  const Node& source = node(id);
  for (size_t i = symbols.size(); i < source.outputs.size(); ++i) {
    auto made = std::make_shared<SymbolBody>();
    made->kind = TensorBody::Kind::Symbol;
    made->dtype = source.outputs[i].dtype;
    made->shape = source.outputs[i].shape;
    made->builder = const_cast<GraphImpl*>(this)->weak_from_this();
    made->node = id;
    made->output = static_cast<int>(i);
    made->name = fmt::format("{}:{}", source.name, i);
    made->find_device = device_of_symbol;
    symbols.push_back(TensorAccess::make(std::move(made)));
  }
  return symbols;
}

int GraphImpl::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = names().find(std::string(name));
  return found == names_.end() ? -1 : found->second.node;
}

std::optional<NodeOutput> GraphImpl::find_output(std::string_view name) const {
  const size_t colon = std::min(name.rfind(':'), name.size());
  NodeOutput found{.node = find(name.substr(0, colon))};
  const char* const end = name.data() + name.size();
  if (colon < name.size()) {
    const auto [stop, error] = std::from_chars(name.data() + colon + 1, end, found.output);
    if (error != std::errc() || stop != end) return std::nullopt;
  }
  if (found.node < 0 || found.output < 0) return std::nullopt;
  const size_t num_outputs = node(found.node).outputs.size();
  return static_cast<size_t>(found.output) < num_outputs ? std::optional(found) : std::nullopt;
}

std::string GraphImpl::next_name(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::string candidate(name);
  const auto asked = names().find(candidate);
  if (asked == names_.end()) return candidate;
  for (int number = asked->second.next_suffix; names_.contains(candidate); ++number) {
    candidate = fmt::format("{}_{}", name, number);
  }
  return candidate;
}

std::string GraphImpl::unique_name(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::string candidate = next_name(name);
  // The next search starts after this number: many nodes share few names.
  if (candidate != name) ++names_[std::string(name)].next_suffix;
  names_.try_emplace(candidate);
  return candidate;
}

Tensor GraphImpl::symbol(NodeOutput node_output) const {
  const std::lock_guard lock(mutex_);
  return symbols_of(node_output.node).at(static_cast<size_t>(node_output.output));
}

bool GraphImpl::owns(const Tensor& tensor) const {
  return tensor.is_symbolic() &&
         static_cast<const SymbolBody&>(body(tensor)).builder.lock().get() == this;
}

NodeOutput GraphImpl::node_output(const Tensor& symbol) const {
  if (!owns(symbol)) {
    raise(Code::InvalidArgument, "[Graph] {} is not a tensor of this graph", symbol.to_string());
  }
  const auto& found = static_cast<const SymbolBody&>(body(symbol));
  return {found.node, found.output};
}

Tensor GraphImpl::import(const Tensor& tensor) {
  if (owns(tensor)) return tensor;
  if (tensor.is_symbolic()) {
    raise(Code::InvalidArgument,
          "[Graph] {} belongs to another graph; build both sides inside one as_default()",
          tensor.to_string());
  }
  return append(kConst, {}, {{"value", constant_of(tensor)}}, {{tensor.dtype(), tensor.shape()}},
                {})[0];
}

std::vector<OpCall> GraphImpl::calls() const {
  const std::lock_guard lock(mutex_);
  std::vector<OpCall> calls;
  for (int id = 0; id < size(); ++id) {
    const Node& made = node(id);
    calls.push_back({.op = made.op,
                     .attrs = made.attrs,
                     .inputs = symbols(made.inputs),
                     .outputs = symbols_of(id)});
  }
  return calls;
}

std::vector<GraphImpl::VariableRecord> GraphImpl::variables(const MakeVariable& make) {
  const std::lock_guard lock(mutex_);
  for (VariableRecord& record : variables_) {
    if (!record.variable) record.variable = make(record);
  }
  return variables_;
}

void GraphImpl::follow_first_variable(int id) {
  const Node& follower = node(id);
  if (follower.device.job || !follower.colocated_with.empty()) return;
  const std::lock_guard lock(mutex_);
  followers_.insert(id);
}

int GraphImpl::first_variable() const {
  const std::lock_guard lock(mutex_);
  for (const VariableRecord& record : variables_) {
    const int id = node_output(record.handle.handle).node;
    if (!followers_.contains(id)) return id;
  }
  return -1;
}

Tensor GraphImpl::keep(const std::string& key, const std::function<Tensor()>& make) {
  const GraphBuilder* building = thread_dispatch().builder;
  const bool elsewhere = building != nullptr && building != this;
  if (elsewhere || !makes_variables() || !scoped_controls(*this).empty()) return make();
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = kept_.find(key); known != kept_.end()) return known->second;
  }
  const ContextValue asking(asked_graph, this);
  const Tensor made = make();
  const std::lock_guard lock(mutex_);
  return kept_.try_emplace(key, made).first->second;
}

std::shared_ptr<GraphImpl> graph_of(const Tensor& tensor) {
  if (!tensor.is_symbolic()) {
    raise(Code::InvalidArgument, "[Graph] {} is a value, not a tensor of a graph",
          tensor.to_string());
  }
  auto graph = std::dynamic_pointer_cast<GraphImpl>(
      static_cast<const SymbolBody&>(body(tensor)).builder.lock());
  if (!graph) raise(Code::FailedPrecondition, "[Graph] the tensor's graph no longer exists");
  return graph;
}

std::string output_name(const GraphImpl& graph, NodeOutput node_output) {
  const std::string& name = graph.node(node_output.node).name;
  return node_output.output == 0 ? name : fmt::format("{}:{}", name, node_output.output);
}

NamedHandle add_handle(const OpDef& op, std::string_view name, const std::string& shared_name,
                       Attrs attrs, Site site) {
  const std::shared_ptr<GraphImpl> graph = GraphAccess::impl(get_default_graph());
  const std::string state =
      shared_name.empty() ? graph->next_name(name_prefix() + std::string(name)) : shared_name;
  attrs.set("container", current_container());
  attrs.set("shared_name", state);
  const Specs outputs = op.infer({op.name, {}, attrs});
  // State exists before the nodes that the open guards name, so its users need not wait for them.
  const NoControlDependencies at_once;
  return {graph->append_named(name, op, {}, std::move(attrs), outputs, site)[0], state};
}

Tensor keep_about(std::string_view what, const std::vector<Tensor>& about,
                  const std::function<Tensor()>& make) {
  if (about.empty() || !std::ranges::all_of(about, &Tensor::is_symbolic)) return make();
  std::string key(what);
  for (const Tensor& tensor : about) key += " " + tensor.name();
  return graph_of(about[0])->keep(key, make);
}

Tensor keep_question(const OpDef& op, const Tensor& handle, Site site) {
  return keep_about(op.name, {handle}, [&] {
    const SoleColocation together(handle);
    return apply(op, {handle}, {}, site);
  });
}

namespace {

// `seen` are the nodes that led here: names of later nodes may lead back.
DeviceName follow_requests(const GraphImpl& graph, int id, std::set<int>& seen) {
  const Node& node = graph.node(id);
  if (!seen.insert(id).second) return node.device;
  if (graph.follows_first_variable(id)) {
    const int first = graph.first_variable();
    return first < 0 ? node.device : node.device.filled_from(follow_requests(graph, first, seen));
  }
  if (node.device != DeviceName()) return node.device;
  for (const std::string& name : node.colocated_with) {
    const int neighbour = graph.find(name);
    if (neighbour < 0) continue;
    const DeviceName found = follow_requests(graph, neighbour, seen);
    if (found != DeviceName()) return found;
  }
  return {};
}

}  // namespace

DeviceName device_asked_for(const GraphImpl& graph, int id) {
  std::set<int> seen;
  return follow_requests(graph, id, seen);
}

DeviceName own_request(const GraphImpl& graph, int id) {
  return graph.follows_first_variable(id) ? device_asked_for(graph, id) : graph.node(id).device;
}

}  // namespace cohort::internal
