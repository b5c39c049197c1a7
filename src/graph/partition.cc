#include "graph/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

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

// Cuts one graph; exists for the time of one partition().
class Cutter {
 public:
  Cutter(const GraphImpl& graph, const std::vector<DeviceName>& devices, const RunRequest& request)
      : graph_(graph), devices_(devices), request_(request) {
    for (size_t i = 0; i < request.feeds.size(); ++i) fed_[request.feeds[i]] = i;
  }

  std::vector<Partition> cut() {
    for (const int id : needed_nodes(graph_, request_)) copy(id);
    for (const int target : request_.targets) {
      part_of(target).targets.push_back(here_.at({device_of(target), {target, 0}}).node);
    }
    for (size_t i = 0; i < request_.fetches.size(); ++i) place_fetch(i);
    std::vector<Partition> parts;
    for (auto& [name, part] : parts_) parts.push_back(std::move(part));
    return parts;
  }

 private:
  std::string device_of(int id) const { return devices_[static_cast<size_t>(id)].to_string(); }

  Partition& part(const std::string& device) {
    Partition& found = parts_[device];
    if (!found.graph) {
      found.device = DeviceName::parse(device);
      found.graph = std::make_shared<GraphImpl>();
    }
    return found;
  }
  Partition& part_of(int id) { return part(device_of(id)); }

  // A fetch that is fed comes from the device of its node, which need not run.
  void place_fetch(size_t index) {
    const Endpoint fetch = request_.fetches[index];
    const std::string device = device_of(fetch.node);
    part(device).fetches[index] = local(fetch, device);
  }

  // The endpoint that stands for `wanted` on `device`: a copy of the node, a Recv, or a fed value.
  Endpoint local(Endpoint wanted, const std::string& device) {
    const auto key = std::make_pair(device, wanted);
    const auto fed = fed_.find(wanted);
    auto& known = fed != fed_.end() ? fed_here_ : here_;
    if (const auto found = known.find(key); found != known.end()) return found->second;
    const Endpoint made = fed != fed_.end() ? feed(fed->second, device) : receive(wanted, device);
    return known[key] = made;
  }

  Endpoint feed(size_t index, const std::string& device) {
    const Endpoint original = request_.feeds[index];
    const Spec& spec = spec_of(original);
    const Endpoint made = add_source(device, "fed", spec, find_op("Placeholder"), {});
    part(device).feeds[index] = made;
    return made;
  }

  Endpoint receive(Endpoint wanted, const std::string& device) {
    const int64_t edge = next_edge_++;
    Partition& from = part_of(wanted.node);
    const Endpoint source = here_.at({device_of(wanted.node), wanted});
    const int send = from.graph->add({.name = fmt::format("send_{}", edge),
                                      .op = &kSend,
                                      .attrs = {{"edge", edge}},
                                      .inputs = {source},
                                      .device = from.device});
    from.targets.push_back(send);
    return add_source(device, "recv", spec_of(wanted), kRecv, {{"edge", edge}});
  }

  Endpoint add_source(const std::string& device, std::string_view kind, const Spec& spec,
                      const OpDef& op, Attrs attrs) {
    Partition& to = part(device);
    attrs.set("dtype", spec.dtype);
    attrs.set("shape", spec.shape);
    return {to.graph->add({.name = fmt::format("{}_{}", kind, to.graph->size()),
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
  int local_control(int before, const std::string& device) {
    if (device_of(before) == device) return control_copies_.at(before);
    const auto key = std::make_pair(device, before);
    if (const auto found = control_arrivals_.find(key); found != control_arrivals_.end()) {
      return found->second;
    }
    const int64_t edge = next_edge_++;
    Partition& from = part_of(before);
    const Tensor empty = Tensor::from(std::vector<bool>{});
    const Spec spec{kBool, Shape{0}};
    const int token = from.graph->add({.name = fmt::format("done_{}", edge),
                                       .op = &kConst,
                                       .attrs = {{"value", empty}},
                                       .controls = {control_copies_.at(before)},
                                       .device = from.device,
                                       .outputs = {spec}});
    from.targets.push_back(from.graph->add({.name = fmt::format("send_{}", edge),
                                            .op = &kSend,
                                            .attrs = {{"edge", edge}},
                                            .inputs = {{token, 0}},
                                            .device = from.device}));
    const int arrival = add_source(device, "recv", spec, kRecv, {{"edge", edge}}).node;
    return control_arrivals_[key] = arrival;
  }

  void copy(int id) {
    const std::string device = device_of(id);
    Node node = graph_.node(id);
    for (Endpoint& input : node.inputs) input = local(input, device);
    for (int& before : node.controls) before = local_control(before, device);
    node.device = DeviceName::parse(device);
    const size_t outputs = node.outputs.size();
    const int made = part(device).graph->add(std::move(node));
    control_copies_[id] = made;
    here_[{device, {id, 0}}] = {made, 0};
    for (int i = 1; i < static_cast<int>(outputs); ++i) here_[{device, {id, i}}] = {made, i};
  }

  const GraphImpl& graph_;
  const std::vector<DeviceName>& devices_;
  const RunRequest& request_;
  std::map<Endpoint, size_t> fed_;
  std::map<std::string, Partition> parts_;
  // By device: copies and arrivals of computed values, and placeholders for fed ones.
  std::map<std::pair<std::string, Endpoint>, Endpoint> here_;
  std::map<std::pair<std::string, Endpoint>, Endpoint> fed_here_;
  std::map<int, int> control_copies_;
  std::map<std::pair<std::string, int>, int> control_arrivals_;
  int64_t next_edge_ = 0;
};

}  // namespace

std::vector<Partition> partition(const GraphImpl& graph, const std::vector<DeviceName>& devices,
                                 const RunRequest& request) {
  return Cutter(graph, devices, request).cut();
}

}  // namespace cohort::internal
