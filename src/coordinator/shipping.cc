#include "coordinator/shipping.h"

#include <fmt/format.h>

#include <map>

#include "base/raise.h"
#include "coordinator/graph_nodes.h"
#include "coordinator/once.h"
#include "coordinator/remote_cell.h"
#include "graph/serialize.h"

namespace cohort::internal {
namespace {

bool is_resource(const GraphImpl& graph, Endpoint endpoint) {
  return graph.node(endpoint.node).outputs[static_cast<size_t>(endpoint.output)].dtype == kResource;
}

bool is_local(const DeviceName& device) { return device.job.value_or("localhost") == "localhost"; }

// One function on its way into a graph.
class Copy {
 public:
  Copy(const GraphFunction& function, const Destination& destination)
      : function_(function),
        body_(*function.body),
        to_(destination),
        ids_(static_cast<size_t>(body_.size()), -1),
        devices_(static_cast<size_t>(body_.size())) {}

  ShippedFunction run(std::span<const Tensor> arguments) {
    bind_arguments(arguments);
    for (int id = 0; id < body_.size(); ++id) {
      if (body_.node(id).op->name != "Argument") copy(id);
    }
    for (const Endpoint result : function_.results) made_.fetches.push_back(at(result));
    std::vector<int> effects;
    for (const int id : function_.effects) effects.push_back(ids_[static_cast<size_t>(id)]);
    made_.fetches.push_back(add_completion(to_.graph, effects, to_.home));
    return std::move(made_);
  }

 private:
  void bind_arguments(std::span<const Tensor> arguments) {
    for (size_t i = 0; i < function_.arguments.size(); ++i) {
      const bool own = i < arguments.size();
      const Tensor& given = own ? arguments[i] : function_.captured[i - arguments.size()];
      bind(function_.arguments[i], given);
    }
  }

  void bind(Endpoint argument, const Tensor& given) {
    const Node& node = body_.node(argument.node);
    if (given.dtype() != kResource) {
      places_[argument] = add_placeholder(to_.graph, name_of(node), node.outputs[0], to_.home);
      made_.feeds.push_back(places_[argument]);
      return;
    }
    const Resource* resource = resource_of(given).get();
    if (const auto* cell = dynamic_cast<const RemoteCell*>(resource)) {
      places_[argument] =
          add_variable_handle(to_.graph, to_.container, cell->name(), cell->device());
      device_of_handle_[argument] = cell->device();
    } else {
      places_[argument] = to_.bind_iterator(dynamic_cast<const ElementSource&>(*resource));
      device_of_handle_[argument] = to_.home;
    }
  }

  void copy(int id) {
    const Node& node = body_.node(id);
    const DeviceName device = device_for(node);
    std::vector<Endpoint> inputs;
    for (const Endpoint input : node.inputs) inputs.push_back(at(input));
    std::vector<int> controls;
    for (const int before : node.controls) {
      const int made = ids_[static_cast<size_t>(before)];
      if (made >= 0) controls.push_back(made);
    }
    Node made{.name = to_.graph.unique_name(name_of(node)),
              .op = node.op,
              .attrs = node.attrs,
              .inputs = std::move(inputs),
              .controls = std::move(controls),
              .device = device,
              .outputs = node.outputs,
              .site = node.site};
    if (to_.claim && changes_variable(node)) made = once(made, to_.graph, *to_.claim, updates_++);
    ids_[static_cast<size_t>(id)] = to_.graph.add(std::move(made));
    devices_[static_cast<size_t>(id)] = device;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].dtype == kResource) device_of_handle_[{id, static_cast<int>(i)}] = device;
    }
  }

  bool changes_variable(const Node& node) const {
    if (!node.op->stateful || node.op->name == "ReadVariable" || node.inputs.empty()) return false;
    const auto handle = device_of_handle_.find(node.inputs[0]);
    return handle != device_of_handle_.end() && !handle->second.same_task(to_.home) &&
           node.attrs.has("dtype") && node.attrs.has("shape");
  }

  DeviceName device_for(const Node& node) const {
    std::optional<DeviceName> bound;
    for (const Endpoint input : node.inputs) {
      if (!is_resource(body_, input)) continue;
      const DeviceName& device = device_of_handle_.at(input);
      if (bound && *bound != device) raise_two_places(node, *bound, device);
      bound = device;
    }
    if (bound) return *bound;
    if (gathers_from_variable(node)) return devices_[static_cast<size_t>(node.inputs[0].node)];
    for (const std::string& name : node.colocated_with) {
      const int neighbour = body_.find(name);
      if (neighbour >= 0 && ids_[static_cast<size_t>(neighbour)] >= 0) {
        return devices_[static_cast<size_t>(neighbour)];
      }
    }
    return moved(node.device);
  }

  // Only the rows that are asked for leave the variable's task.
  bool gathers_from_variable(const Node& node) const {
    return node.op->name == "Gather" && node.attrs.integer("axis") == 0 &&
           body_.node(node.inputs[0].node).op->name == "ReadVariable";
  }

  // A device of this process is the one of that number over there.
  DeviceName moved(const DeviceName& asked) const {
    if (!is_local(asked)) return asked;
    DeviceName device = to_.home;
    if (asked.type) device.type = asked.type;
    if (asked.index) device.index = asked.index;
    return device;
  }

  [[noreturn]] void raise_two_places(const Node& node, const DeviceName& a,
                                     const DeviceName& b) const {
    raise(Code::InvalidArgument,
          "[Coordinator] operation '{}' of function '{}' uses state on {} and on {}, which one "
          "operation cannot; keep variables that are used inside of one cond() or while_loop() "
          "together with colocate_vars_with()",
          node.name, function_.name, a.to_string(), b.to_string());
  }

  std::string name_of(const Node& node) const {
    const std::string name = fmt::format("{}/{}", function_.name, node.name);
    return is_node_name(name) ? name : "function/" + node.name;
  }

  Endpoint at(Endpoint endpoint) const {
    const auto found = places_.find(endpoint);
    if (found != places_.end()) return found->second;
    return {ids_[static_cast<size_t>(endpoint.node)], endpoint.output};
  }

  const GraphFunction& function_;
  const GraphImpl& body_;
  const Destination& to_;
  std::vector<int> ids_;                             // of copied nodes, -1 for the others
  std::vector<DeviceName> devices_;                  // of copied nodes
  std::map<Endpoint, Endpoint> places_;              // of arguments
  std::map<Endpoint, DeviceName> device_of_handle_;  // by endpoint of the body
  int64_t updates_ = 0;
  ShippedFunction made_;
};

}  // namespace

void check_can_travel(const GraphFunction& function, std::span<const Tensor> arguments) {
  for (const Tensor& captured : function.captured) {
    if (captured.is_symbolic()) {
      raise(Code::FailedPrecondition,
            "[Coordinator] function '{}' uses a tensor of the graph or function around it, which "
            "workers do not have; pass it as an argument",
            function.name);
    }
    const Resource* resource = resource_of(captured).get();
    if (dynamic_cast<const RemoteCell*>(resource) != nullptr) continue;
    if (const auto* cell = dynamic_cast<const VariableCell*>(resource)) {
      raise(Code::FailedPrecondition,
            "[Coordinator] function '{}' uses variable '{}' of this process, which workers do not "
            "reach; make it inside strategy.scope()",
            function.name, cell->name());
    }
  }
  const auto graph = std::make_shared<GraphImpl>();
  const DeviceName home = DeviceName::parse("/job:worker/replica:0/task:0/device:CPU:0");
  ship(function, arguments,
       {.graph = *graph,
        .home = home,
        .container = "",
        .bind_iterator = [&](const ElementSource& source) {
          return add_iterator_handle(*graph, {"", source.name(), source.describe_dataset()}, home);
        }});
  (void)serialize_graph(*graph);
}

ShippedFunction ship(const GraphFunction& function, std::span<const Tensor> arguments,
                     const Destination& destination) {
  return Copy(function, destination).run(arguments);
}

}  // namespace cohort::internal
