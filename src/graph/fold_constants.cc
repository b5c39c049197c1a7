#include "graph/fold_constants.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <unordered_map>

#include "base/hash.h"
#include "cohort/device.h"
#include "cohort/error.h"
#include "ops/all_ops.h"
#include "ops/dispatch.h"
#include "tensor/body.h"

namespace cohort::internal {

namespace {

constexpr int64_t kMaxComparedBytes = 256;

void mix(size_t& seed, size_t value) { seed = mix64(seed + value + kSplitMixStep); }

// The elements of a small numeric tensor, else nothing.
std::string_view small_content(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_symbolic() || !is_numeric(tensor.dtype())) return {};
  const int64_t bytes = tensor.size() * size_of(tensor.dtype());
  if (bytes == 0 || bytes > kMaxComparedBytes) return {};
  return {static_cast<const char*>(element_data(tensor, tensor.dtype())),
          static_cast<size_t>(bytes)};
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (TensorAccess::id(a) == TensorAccess::id(b)) return true;
  const std::string_view left = small_content(a);
  return !left.empty() && left == small_content(b) && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && body(a).weak == body(b).weak && body(a).device == body(b).device;
}

size_t hash_tensor(const Tensor& tensor) {
  const std::string_view content = small_content(tensor);
  return content.empty() ? std::hash<const void*>()(TensorAccess::id(tensor))
                         : std::hash<std::string_view>()(content);
}

// -0.0 and 0.0 differ.
bool same_value(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}
bool same_value(const Tensor& a, const Tensor& b) { return same_tensor(a, b); }
template <typename T>
bool same_value(const T& a, const T& b) {
  return a == b;
}

bool same_attrs(const Attrs& a, const Attrs& b) {
  const auto same_entry = [](const Attrs::Entry& x, const Attrs::Entry& y) {
    if (x.first != y.first || x.second.index() != y.second.index()) return false;
    return std::visit(
        [&]<typename T>(const T& value) { return same_value(value, std::get<T>(y.second)); },
        x.second);
  };
  return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                    same_entry);
}

template <typename T>
size_t hash_value(const T& value) {
  return std::hash<T>()(value);
}
size_t hash_value(double value) { return std::hash<uint64_t>()(std::bit_cast<uint64_t>(value)); }
size_t hash_value(const Tensor& value) { return hash_tensor(value); }
size_t hash_value(const Shape& value) {
  size_t seed = static_cast<size_t>(value.rank() + 1);
  for (const int64_t size : value) mix(seed, hash_value(size));
  return seed;
}
template <typename T>
size_t hash_value(const std::vector<T>& values) {
  size_t seed = values.size();
  for (const T& value : values) mix(seed, hash_value(value));
  return seed;
}

// Whether the nodes compute the same: same op, device, inputs, order and attributes. Constants of a
// few elements are compared by value, bit for bit, larger ones by identity.
bool same_node(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.controls == b.controls && a.device == b.device &&
         same_attrs(a.attrs, b.attrs);
}

// A hash that is equal for nodes that compute the same.
size_t hash_node(const Node& node) {
  size_t seed = std::hash<const void*>()(node.op);
  for (const NodeOutput input : node.inputs) {
    mix(seed, static_cast<size_t>(input.node));
    mix(seed, static_cast<size_t>(input.output));
  }
  for (const int before : node.controls) mix(seed, static_cast<size_t>(before));
  for (const Attrs::Entry& entry : node.attrs.entries()) {
    mix(seed, std::visit([](const auto& value) { return hash_value(value); }, entry.second));
  }
  return seed;
}

constexpr int64_t kMaxFoldedBytes = 1 << 20;

// A random op is a function of its key, but its value is drawn in each run and not stored.
bool is_pure(const Node& node) {
  const Traits traits = node.op->traits;
  const bool values = std::ranges::all_of(
      node.outputs, [](const Spec& output) { return output.dtype != kResource; });
  return !node.op->is_stateful() && !traits.has(Trait::Source) && !traits.has(Trait::Random) &&
         values;
}

bool is_small(const Spec& spec) {
  if (!is_numeric(spec.dtype) || !spec.shape.is_fully_known()) return false;
  int64_t bytes = size_of(spec.dtype);
  for (const int64_t size : spec.shape) {
    if (size > 0 && bytes > kMaxFoldedBytes / size) return false;
    bytes *= size;
  }
  return bytes <= kMaxFoldedBytes;
}

// Folds one graph, for one call of fold().
class Folding {
 public:
  Folding(std::shared_ptr<const GraphImpl> graph, const RunRequest& request)
      : graph_(std::move(graph)),
        request_(request),
        fed_(request.feeds.begin(), request.feeds.end()),
        ids_(needed_nodes(*graph_, request)),
        stands_for_(static_cast<size_t>(graph_->size()), kNotNeeded) {
    by_hash_.reserve(ids_.size());
  }

  FoldedGraph fold() {
    for (const int id : ids_) {
      if (!visit(id)) return {graph_, request_};
    }
    for (const int id : ids_) {
      if (stands_for(id) == id && may_change(id)) compute(id);
    }
    return changed_ ? build() : FoldedGraph{graph_, request_};
  }

 private:
  static constexpr int kNotNeeded = -1;

  const Node& node(int id) const {
    if (altered_.empty()) return graph_->node(id);
    const auto altered = altered_.find(id);
    return altered == altered_.end() ? graph_->node(id) : altered->second;
  }
  Node& alter(int id) { return altered_.try_emplace(id, graph_->node(id)).first->second; }
  int& stands_for(int id) { return stands_for_[static_cast<size_t>(id)]; }
  bool is_fed(NodeOutput node_output) const { return fed_.contains(node_output); }

  // Looks for an earlier node that is the same. Returns false for a graph whose nodes do not come
  // in order, which is left as it is.
  bool visit(int id) {
    if (!comes_in_order(id)) return false;
    if (refers_to_replaced(id)) redirect(alter(id));
    stands_for(id) = may_change(id) ? first_like(id) : id;
    changed_ |= stands_for(id) != id;
    return true;
  }

  bool may_change(int id) { return is_pure(node(id)) && !has_fed_output(id); }

  bool comes_in_order(int id) const {
    const Node& looked_at = graph_->node(id);
    const auto before = [&](int other) { return other < id; };
    return std::ranges::all_of(looked_at.controls, before) &&
           std::ranges::all_of(looked_at.inputs, [&](NodeOutput input) {
             return before(input.node) || is_fed(input);
           });
  }

  bool refers_to_replaced(int id) {
    const Node& looked_at = graph_->node(id);
    const auto replaced = [&](int other) { return stands_for(other) != other; };
    return std::ranges::any_of(looked_at.controls, replaced) ||
           std::ranges::any_of(looked_at.inputs, [&](NodeOutput input) {
             return !is_fed(input) && replaced(input.node);
           });
  }

  // Lets the node refer to the nodes that are left.
  void redirect(Node& altered) {
    for (NodeOutput& input : altered.inputs) {
      if (!is_fed(input)) input.node = stands_for(input.node);
    }
    std::vector<int>& controls = altered.controls;
    for (int& before : controls) before = stands_for(before);
    std::ranges::sort(controls);
    controls.erase(std::unique(controls.begin(), controls.end()), controls.end());
  }

  bool has_fed_output(int id) const {
    const auto first = fed_.lower_bound({id, 0});
    return first != fed_.end() && first->node == id;
  }

  // Whether the input's value is known now. A constant that waits for another node is
  // not known, because its users wait as well.
  bool is_constant(NodeOutput input) {
    return !is_fed(input) && node(input.node).op == &kConst && node(input.node).controls.empty();
  }

  void compute(int id) {
    const Node& computed = node(id);
    if (computed.op == &kConst || !computed.controls.empty() || computed.outputs.size() != 1 ||
        !is_small(computed.outputs[0])) {
      return;
    }
    std::vector<Tensor> inputs;
    for (const NodeOutput input : computed.inputs) {
      if (!is_constant(input)) return;
      inputs.push_back(node(input.node).attrs.get<Tensor>("value"));
    }
    Tensor value;
    const Status status = capture_status([&] {
      const DeviceScope on(computed.device.to_string());
      const PlainDispatch plain;
      const KernelScope scope;
      execute(*computed.op, inputs, computed.attrs, {&value, 1}, nullptr);
    });
    if (!status.ok() || value.shape() != computed.outputs[0].shape) return;
    Node& constant = alter(id);
    constant.op = &kConst;
    constant.attrs = {{"value", value}};
    constant.inputs.clear();
    changed_ = true;
  }

  int first_like(int id) {
    const size_t hash = hash_node(node(id));
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto other = first; other != last; ++other) {
      if (same_node(node(other->second), node(id))) return other->second;
    }
    by_hash_.emplace(hash, id);
    return id;
  }

  FoldedGraph build() {
    new_ids_.resize(stands_for_.size(), kNotNeeded);
    std::vector<int> kept = ids_;
    for (const NodeOutput feed : request_.feeds) kept.push_back(feed.node);
    std::ranges::sort(kept);
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const int id : kept) {
      if (stands_for(id) == kNotNeeded) add_source(id);
      if (stands_for(id) == id) add(id);
    }
    return {made_, moved_request()};
  }

  // A node whose needed outputs are all fed does not run; it stays because the request names it.
  void add_source(int id) {
    Node source = graph_->node(id);
    source.inputs.clear();
    source.controls.clear();
    new_id(id) = made_->add_unindexed(std::move(source));
  }

  void add(int id) {
    Node kept = node(id);
    for (NodeOutput& input : kept.inputs) input = moved(input);
    for (int& before : kept.controls) before = new_id(before);
    new_id(id) = made_->add_unindexed(std::move(kept));
  }

  int& new_id(int id) { return new_ids_[static_cast<size_t>(id)]; }
  NodeOutput moved(NodeOutput node_output) {
    return {new_id(node_output.node), node_output.output};
  }
  NodeOutput moved_result(NodeOutput node_output) {
    if (is_fed(node_output)) return moved(node_output);
    return moved({stands_for(node_output.node), node_output.output});
  }

  RunRequest moved_request() {
    RunRequest request;
    for (const NodeOutput feed : request_.feeds) request.feeds.push_back(moved(feed));
    for (const NodeOutput fetch : request_.fetches) request.fetches.push_back(moved_result(fetch));
    for (const int target : request_.targets) {
      request.targets.push_back(new_id(stands_for(target)));
    }
    return request;
  }

  const std::shared_ptr<const GraphImpl> graph_;
  const RunRequest& request_;
  const std::set<NodeOutput> fed_;
  const std::vector<int> ids_;  // of the nodes that the request needs
  // By number in graph_: the nodes that change. Their inputs still have numbers of graph_.
  std::unordered_map<int, Node> altered_;
  std::vector<int> stands_for_;  // by number in graph_: which of several equal nodes stays
  std::unordered_multimap<size_t, int> by_hash_;
  bool changed_ = false;
  std::shared_ptr<GraphImpl> made_ = std::make_shared<GraphImpl>();
  std::vector<int> new_ids_;  // by number in graph_
};

}  // namespace

FoldedGraph fold(std::shared_ptr<const GraphImpl> graph, const RunRequest& request) {
  return Folding(std::move(graph), request).fold();
}

}  // namespace cohort::internal
