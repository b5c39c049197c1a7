#include "graph/partition.h"

#include <fmt/format.h>

#include "base/raise.h"
#include "ops/infer.h"
#include "ops/run_context.h"

namespace cohort::internal {

// Hand a tensor to the Recv of the same edge number, on another device of the same run.
extern constexpr OpDef kSend{
    .name = "Send",
    .dtypes = kAnyType | kResourceType,
    .infer = [](const OpInputs&) -> Specs { return {}; },
    .compute =
        [](Kernel& k) {
          require_run(k.run, "Send").edges().send(k.attrs.integer("edge"), k.inputs[0]);
        },
    .gradient = nullptr,
    .no_gradient_because = "gradients are taken before a graph is cut",
    .stateful = true,
};

extern constexpr OpDef kRecv{
    .name = "Recv",
    .dtypes = kAnyType | kResourceType,
    .infer = [](const OpInputs& inputs) -> Specs {
      return {{inputs.attrs.get<DType>("dtype"), inputs.attrs.get<Shape>("shape")}};
    },
    .compute =
        [](Kernel& k) {
          k.outputs[0] = require_run(k.run, "Recv")
                             .edges()
                             .receive(k.attrs.integer("edge"), k.run->cancellation());
        },
    .gradient = nullptr,
    .no_gradient_because = "gradients are taken before a graph is cut",
    .stateful = false,
};

extern const OpDef kConst;

namespace {

// Cuts one graph; exists for the time of one partition(). Devices go by number, in the order in
// which they are met. Names of added nodes begin with '_', as no user's do.
class Cutter {
 public:
  Cutter(const GraphImpl& graph, const std::vector<DeviceName>& devices, const RunRequest& request)
      : graph_(graph),
        request_(request),
        needed_(needed_nodes(graph, request)),
        device_of_(devices.size(), kNowhere),
        copies_(devices.size(), kNowhere) {
    for (size_t i = 0; i < request.feeds.size(); ++i) fed_[request.feeds[i]] = i;
    for (const int id : needed_) assign_part(id, devices);
    for (const Endpoint fetch : request.fetches) assign_part(fetch.node, devices);
  }

  std::vector<Partition> cut() {
    for (const int id : needed_) copy(id);
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

  int device_of(int id) const { return device_of_[static_cast<size_t>(id)]; }
  Partition& part(int device) { return parts_[static_cast<size_t>(device)]; }
  Partition& part_of(int id) { return part(device_of(id)); }

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

  // A fetch that is fed comes from the device of its node, which need not run.
  void place_fetch(size_t index) {
    const Endpoint fetch = request_.fetches[index];
    const int device = device_of(fetch.node);
    part(device).fetches[index] = local(fetch, device);
  }

  // The endpoint that stands for `wanted` on `device`: a copy of the node, a Recv, or a fed value.
  Endpoint local(Endpoint wanted, int device) {
    const auto fed = fed_.empty() ? fed_.end() : fed_.find(wanted);
    if (fed == fed_.end() && device_of(wanted.node) == device) {
      return {copies_[static_cast<size_t>(wanted.node)], wanted.output};
    }
    const auto [entry, fresh] = arrivals_.try_emplace({device, wanted});
    if (fresh) {
      entry->second = fed != fed_.end() ? feed(fed->second, device) : receive(wanted, device);
    }
    return entry->second;
  }

  Endpoint feed(size_t index, int device) {
    const Endpoint made =
        add_source(device, "fed", spec_of(request_.feeds[index]), find_op("Placeholder"), {});
    part(device).feeds[index] = made;
    return made;
  }

  Endpoint receive(Endpoint wanted, int device) {
    const int64_t edge = next_edge_++;
    send(edge, part_of(wanted.node), {copies_[static_cast<size_t>(wanted.node)], wanted.output});
    return add_source(device, "recv", spec_of(wanted), kRecv, {{"edge", edge}});
  }

  static void send(int64_t edge, Partition& from, Endpoint value) {
    from.targets.push_back(from.graph->add_unindexed({.name = fmt::format("_send_{}", edge),
                                                      .op = &kSend,
                                                      .attrs = {{"edge", edge}},
                                                      .inputs = {value},
                                                      .device = from.device}));
  }

  Endpoint add_source(int device, std::string_view kind, const Spec& spec, const OpDef& op,
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

  const Spec& spec_of(Endpoint endpoint) const {
    return graph_.node(endpoint.node).outputs[static_cast<size_t>(endpoint.output)];
  }

  // The node that stands, on `device`, for "`before` has run". On another device that is the
  // arrival of an empty tensor sent afterwards.
  int local_control(int before, int device) {
    if (device_of(before) == device) return copies_[static_cast<size_t>(before)];
    if (const int arrival = arrival_of(before, device); arrival != kNowhere) return arrival;
    const auto [entry, fresh] = control_arrivals_.try_emplace({device, before});
    if (!fresh) return entry->second;
    const int64_t edge = next_edge_++;
    Partition& from = part_of(before);
    const Spec spec{kBool, Shape{0}};
    const int token =
        from.graph->add_unindexed({.name = fmt::format("_done_{}", edge),
                                   .op = &kConst,
                                   .attrs = {{"value", Tensor::from(std::vector<bool>{})}},
                                   .controls = {copies_[static_cast<size_t>(before)]},
                                   .device = from.device,
                                   .outputs = {spec}});
    send(edge, from, {token, 0});
    return entry->second = add_source(device, "recv", spec, kRecv, {{"edge", edge}}).node;
  }

  // A Recv on `device` of something that `before` computed, which says that it has run.
  int arrival_of(int before, int device) const {
    for (auto entry = arrivals_.lower_bound({device, {before, 0}});
         entry != arrivals_.end() && entry->first.first == device &&
         entry->first.second.node == before;
         ++entry) {
      if (!fed_.contains(entry->first.second)) return entry->second.node;
    }
    return kNowhere;
  }

  void copy(int id) {
    const int device = device_of(id);
    Node node = graph_.node(id);
    for (Endpoint& input : node.inputs) input = local(input, device);
    for (int& before : node.controls) before = local_control(before, device);
    node.device = part(device).device;
    node.colocated_with.clear();  // it is placed, and they may be elsewhere
    copies_[static_cast<size_t>(id)] = part(device).graph->add_unindexed(std::move(node));
  }

  const GraphImpl& graph_;
  const RunRequest& request_;
  const std::vector<int> needed_;
  std::map<Endpoint, size_t> fed_;
  std::vector<Partition> parts_;  // by device number
  std::map<std::string, int> numbers_;
  int last_ = 0;
  std::vector<int> device_of_;  // by node
  std::vector<int> copies_;     // by node: its copy in the graph of its device
  // By device: values that were sent there, or are fed there.
  std::map<std::pair<int, Endpoint>, Endpoint> arrivals_;
  std::map<std::pair<int, int>, int> control_arrivals_;
  int64_t next_edge_ = 0;
};

}  // namespace

std::vector<Partition> partition(const GraphImpl& graph, const std::vector<DeviceName>& devices,
                                 const RunRequest& request) {
  return Cutter(graph, devices, request).cut();
}

}  // namespace cohort::internal
