#include "graph/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/raise.h"
#include "ops/all_ops.h"
#include "ops/infer.h"

namespace cohort::internal {

// Gives a tensor to the Recv of the same edge number, on another device of the same run. The
// executor moves the tensor between the parts of the run; the ops have no kernels.
extern constexpr OpDef kSend{
    .name = "Send",
    .inputs = 1,
    .dtypes = kAnyType | kResourceType,
    .attrs = {{"edge", AttrKind::Int}},
    .infer = [](const OpInputs&) -> Specs { return {}; },
    .compute =
        [](Kernel&) {
          raise(Code::FailedPrecondition, "[Send] runs only in a graph that was cut into parts");
        },
    .no_gradient_because = "gradients are taken before a graph is cut",
    .traits = Trait::HasEffect,
};

extern constexpr OpDef kRecv{
    .name = "Recv",
    .inputs = 0,
    .dtypes = kAnyType | kResourceType,
    .attrs =
        AttrList{{"edge", AttrKind::Int}, {"sender", AttrKind::Text}, {"tensor", AttrKind::Text}} +
        kDeclaredAttrs,
    .infer = infer_declared,
    .compute =
        [](Kernel&) {
          raise(Code::FailedPrecondition, "[Recv] runs only in a graph that was cut into parts");
        },
    .no_gradient_because = "gradients are taken before a graph is cut",
    .traits = Trait::Source,
};

namespace {

// Cuts one graph, for one call of partition(). Devices go by number, in the order in which they are
// met. Names of added nodes begin with '_', which names of users' nodes do not.
//
// Every part has its nodes in one order of the whole graph, in which nodes come after their
// inputs: parts that take their steps in order never wait for each other in a circle. That order
// goes by level, which is how often a value has crossed devices before: so a part has sent
// everything that depends on no other part before it waits for the first time, and parts exchange
// tensors as seldom as they can. A Send comes right after what it sends.
class Cutter {
 public:
  Cutter(const GraphImpl& graph, const std::vector<DeviceName>& devices, const RunRequest& request)
      : graph_(graph),
        request_(request),
        needed_(needed_nodes(graph, request)),
        ignored_(not_waited_for(graph, request)),
        device_of_(devices.size(), kNowhere),
        copies_(devices.size(), kNowhere) {
    for (size_t i = 0; i < request.feeds.size(); ++i) fed_[request.feeds[i]] = i;
    for (const int id : needed_) assign_part(id, devices);
    for (const NodeOutput fetch : request.fetches) assign_part(fetch.node, devices);
    if (parts_.size() > 1) {
      sort_by_level();
      for (const int id : needed_) note_tensors(id);
      for (const int id : needed_) note_order(id);
    }
  }

  std::vector<Partition> cut() {
    for (const int id : needed_) {
      copy(id);
      send_away(id);
    }
    for (const int target : request_.targets) {
      part_of(target).targets.push_back(copies_[static_cast<size_t>(target)]);
    }
    for (size_t i = 0; i < request_.fetches.size(); ++i) place_fetch(i);
    std::vector<Partition> parts;
    for (const auto& [name, device] : numbers_) {
      parts.push_back(std::move(parts_[static_cast<size_t>(device)]));
    }
    return parts;
  }

 private:
  static constexpr int kNowhere = -1;
  static constexpr int kOrderOnly = -1;  // instead of an output: that the node has run

  int device_of(int id) const { return device_of_[static_cast<size_t>(id)]; }
  Partition& part(int device) { return parts_[static_cast<size_t>(device)]; }
  Partition& part_of(int id) { return part(device_of(id)); }
  bool is_fed(NodeOutput node_output) const { return !fed_.empty() && fed_.contains(node_output); }

  void assign_part(int id, const std::vector<DeviceName>& devices) {
    const DeviceName& name = devices[static_cast<size_t>(id)];
    // Neighbours are mostly on one device.
    if (parts_.empty() || parts_[static_cast<size_t>(last_)].device != name) {
      const auto [entry, fresh] =
          numbers_.try_emplace(name.to_string(), static_cast<int>(parts_.size()));
      if (fresh) {
        Partition& made = parts_.emplace_back();
        made.device = name;
        made.graph = std::make_shared<GraphImpl>();
      }
      last_ = entry->second;
    }
    device_of_[static_cast<size_t>(id)] = last_;
  }

  void sort_by_level() {
    std::vector<int> levels(device_of_.size(), 0);
    for (const int id : needed_) {
      int& level = levels[static_cast<size_t>(id)];
      const auto follow = [&](int before) {
        const int hop = device_of(before) == device_of(id) ? 0 : 1;
        level = std::max(level, levels[static_cast<size_t>(before)] + hop);
      };
      for (const NodeOutput input : graph_.node(id).inputs) {
        if (!is_fed(input)) follow(input.node);
      }
      for (const int before : graph_.node(id).controls) {
        if (!ignored_.contains(before)) follow(before);
      }
    }
    std::ranges::stable_sort(needed_, [&](int a, int b) {
      return levels[static_cast<size_t>(a)] < levels[static_cast<size_t>(b)];
    });
    positions_.resize(device_of_.size());
    for (size_t i = 0; i < needed_.size(); ++i) positions_[static_cast<size_t>(needed_[i])] = i;
  }

  // Notes the tensors that the node takes from other devices.
  void note_tensors(int id) {
    const int device = device_of(id);
    for (const NodeOutput input : graph_.node(id).inputs) {
      if (!is_fed(input) && device_of(input.node) != device) {
        crossings_[input.node][device].insert(input.output);
      }
    }
  }

  // Notes the nodes on other devices that the node waits for. One message of a device says that all
  // of them have run there.
  void note_order(int id) {
    const int device = device_of(id);
    for (const auto& [last, others] : orders(id)) {
      crossings_[last][device];
      if (!others.empty()) covered_by_[{last, device}].insert(others.begin(), others.end());
    }
  }

  // The nodes on other devices that the node only waits for: by the last node of each device, the
  // nodes before that. Nodes whose tensors it takes are left out, because the arrival of a tensor
  // says that its node has run.
  std::map<int, std::vector<int>> orders(int id) const {
    std::map<int, std::vector<int>> by_device;
    for (const int before : graph_.node(id).controls) {
      if (ignored_.contains(before) || device_of(before) == device_of(id) ||
          takes_tensor(device_of(id), before)) {
        continue;
      }
      by_device[device_of(before)].push_back(before);
    }
    std::map<int, std::vector<int>> by_last;
    for (auto& [device, nodes] : by_device) {
      const auto last = std::ranges::max_element(nodes, [&](int a, int b) {
        return positions_[static_cast<size_t>(a)] < positions_[static_cast<size_t>(b)];
      });
      const int node = *last;
      nodes.erase(last);
      by_last[node] = std::move(nodes);
    }
    return by_last;
  }

  bool takes_tensor(int device, int from) const {
    const auto found = crossings_.find(from);
    if (found == crossings_.end()) return false;
    const auto outputs = found->second.find(device);
    return outputs != found->second.end() && !outputs->second.empty();
  }

  // Sends what the node computed to the devices that take it.
  void send_away(int id) {
    const auto found = crossings_.find(id);
    if (found == crossings_.end()) return;
    for (const auto& [device, outputs] : found->second) {
      for (const int output : outputs) {
        arrivals_[{device, {id, output}}] = next_edge_;
        const NodeOutput value{copies_[static_cast<size_t>(id)], output};
        send(next_edge_++, part_of(id), shortened(part_of(id), value, graph_.spec({id, output})));
      }
      if (outputs.empty()) send_token(id, device);
    }
  }

  // An edge that only orders carries an empty tensor.
  void send_token(int id, int device) {
    Partition& from = part_of(id);
    const int64_t edge = next_edge_++;
    std::vector<int> after{copies_[static_cast<size_t>(id)]};
    for (const int other : covered_by_[{id, device}]) {
      after.push_back(copies_[static_cast<size_t>(other)]);
    }
    const int token =
        from.graph->add_unindexed({.name = fmt::format("_done_{}", edge),
                                   .op = &kConst,
                                   .attrs = {{"value", Tensor::from(std::vector<bool>{})}},
                                   .controls = std::move(after),
                                   .device = from.device,
                                   .outputs = {Spec{kBool, Shape{0}}}});
    arrivals_[{device, {id, kOrderOnly}}] = edge;
    send(edge, from, {token, 0});
  }

  // A fetch that is fed comes from the device of its node, which need not run.
  void place_fetch(size_t index) {
    const NodeOutput fetch = request_.fetches[index];
    const int device = device_of(fetch.node);
    part(device).fetches[index] = local(fetch, device);
  }

  // The node_output that stands for `wanted` on `device`: a copy of the node, a Recv, or a fed
  // value.
  NodeOutput local(NodeOutput wanted, int device) {
    const auto fed = fed_.empty() ? fed_.end() : fed_.find(wanted);
    if (fed == fed_.end() && device_of(wanted.node) == device) {
      return {copies_[static_cast<size_t>(wanted.node)], wanted.output};
    }
    const auto [entry, fresh] = received_.try_emplace({device, wanted});
    if (fresh) {
      entry->second = fed != fed_.end() ? feed(fed->second, device) : receive(wanted, device);
    }
    return entry->second;
  }

  NodeOutput feed(size_t index, int device) {
    const NodeOutput made =
        add_source(device, "fed", graph_.spec(request_.feeds[index]), kPlaceholder, {});
    part(device).feeds[index] = made;
    return made;
  }

  NodeOutput receive(NodeOutput wanted, int device) {
    Spec spec = wanted.output == kOrderOnly ? Spec{kBool, Shape{0}} : graph_.spec(wanted);
    const bool is_short = is_shortened(spec);
    if (is_short) spec.dtype = kBFloat16;
    // For reports of what a part waits for.
    const std::string sender = part_of(wanted.node).device.split().first;
    const NodeOutput arrived = add_source(device, "recv", spec, kRecv,
                                          {{"edge", arrivals_.at({device, wanted})},
                                           {"sender", sender},
                                           {"tensor", graph_.node(wanted.node).name}});
    return is_short ? cast(part(device), arrived, {kFloat32, spec.shape}) : arrived;
  }

  bool is_shortened(const Spec& spec) const {
    return request_.bfloat16_edges && spec.dtype == kFloat32;
  }

  NodeOutput shortened(Partition& from, NodeOutput value, const Spec& spec) const {
    return is_shortened(spec) ? cast(from, value, {kBFloat16, spec.shape}) : value;
  }

  static NodeOutput cast(Partition& where, NodeOutput value, const Spec& to) {
    return {where.graph->add_unindexed({.name = fmt::format("_cast_{}", where.graph->size()),
                                        .op = &kCast,
                                        .attrs = {{"dtype", to.dtype}},
                                        .inputs = {value},
                                        .device = where.device,
                                        .outputs = {to}}),
            0};
  }

  static void send(int64_t edge, Partition& from, NodeOutput value) {
    from.targets.push_back(from.graph->add_unindexed({.name = fmt::format("_send_{}", edge),
                                                      .op = &kSend,
                                                      .attrs = {{"edge", edge}},
                                                      .inputs = {value},
                                                      .device = from.device}));
  }

  NodeOutput add_source(int device, std::string_view kind, const Spec& spec, const OpDef& op,
                        Attrs attrs) {
    Partition& to = part(device);
    attrs.set("dtype", spec.dtype);
    attrs.set("shape", spec.shape);
    return {to.graph->add_unindexed({.name = fmt::format("_{}_{}", kind, to.graph->size()),
                                     .op = &op,
                                     .attrs = std::move(attrs),
                                     .device = to.device,
                                     .outputs = {spec}}),
            0};
  }

  // The nodes that stand, on its device, for what the node waits for.
  std::vector<int> local_controls(int id) {
    const int device = device_of(id);
    std::vector<int> nodes;
    for (const int before : graph_.node(id).controls) {
      if (ignored_.contains(before)) continue;
      if (device_of(before) == device) {
        nodes.push_back(copies_[static_cast<size_t>(before)]);
      } else if (takes_tensor(device, before)) {
        const int output = *crossings_.at(before).at(device).begin();
        nodes.push_back(local({before, output}, device).node);
      }
    }
    for (const auto& [last, others] : orders(id)) {
      nodes.push_back(local({last, kOrderOnly}, device).node);
    }
    return nodes;
  }

  void copy(int id) {
    const int device = device_of(id);
    Node node = graph_.node(id);
    for (NodeOutput& input : node.inputs) input = local(input, device);
    node.controls = local_controls(id);
    node.device = part(device).device;
    node.colocated_with.clear();  // it is placed, and they may be elsewhere
    copies_[static_cast<size_t>(id)] = part(device).graph->add_unindexed(std::move(node));
  }

  const GraphImpl& graph_;
  const RunRequest& request_;
  std::vector<int> needed_;
  const std::set<int> ignored_;  // by those that would wait for them
  std::map<NodeOutput, size_t> fed_;
  std::vector<Partition> parts_;  // by device number
  std::map<std::string, int> numbers_;
  int last_ = 0;
  std::vector<int> device_of_;  // by node
  std::vector<int> copies_;     // by node: its copy in the graph of its device
  // By node: the other devices that wait for it, and the outputs that they take.
  std::unordered_map<int, std::map<int, std::set<int>>> crossings_;
  std::vector<size_t> positions_;  // by node: its place in the order, where there are several parts
  // By node and other device: what else has run when that device hears that the node has.
  std::map<std::pair<int, int>, std::set<int>> covered_by_;
  std::map<std::pair<int, NodeOutput>, int64_t> arrivals_;  // edges, by device and what comes there
  // By device: the nodes that stand for what arrives there, or is fed there.
  std::map<std::pair<int, NodeOutput>, NodeOutput> received_;
  int64_t next_edge_ = 0;
};

}  // namespace

std::vector<Partition> partition(const GraphImpl& graph, const std::vector<DeviceName>& devices,
                                 const RunRequest& request) {
  return Cutter(graph, devices, request).cut();
}

}  // namespace cohort::internal
