#include "runtime/compiled_trace.h"

#include <algorithm>
#include <map>

#include "ops/dispatch.h"

namespace cohort::internal {
namespace {

// By argument: the devices of the captured resources.
std::map<NodeOutput, DeviceName> resource_devices(const GraphFunction& function) {
  std::map<NodeOutput, DeviceName> devices;
  const size_t own = function.num_own_arguments();
  for (size_t i = 0; i < function.captured.size(); ++i) {
    const Tensor& captured = function.captured[i];
    if (captured.dtype() != kResource || captured.is_symbolic()) continue;
    devices[function.arguments[own + i]] = DeviceName::parse(captured.device());
  }
  return devices;
}

// Whether the function uses state of another process.
bool reaches_out(const GraphFunction& function) {
  return std::ranges::any_of(function.captured, [](const Tensor& captured) {
    return !captured.is_symbolic() && remote_resource_of({&captured, 1}) != nullptr;
  });
}

// Where each node of a function's body runs when it is called on the device `home`: where the code
// asked for, else at home; a node that uses a captured variable runs where the variable is. Throws
// InvalidArgument for a device that this process does not have.
std::vector<DeviceName> devices_of_body(const GraphFunction& function, const DeviceName& home) {
  const std::map<NodeOutput, DeviceName> resources = resource_devices(function);
  // Nodes beside a variable of another process run at home, as the code would without a trace.
  const bool at_home = reaches_out(function);
  std::map<std::string, DeviceName> found;  // by what was asked for
  std::vector<DeviceName> devices;
  for (int id = 0; id < function.body->size(); ++id) {
    const Node& node = function.body->node(id);
    const auto [entry, fresh] = found.try_emplace(node.device.to_string());
    if (fresh) {
      const bool stays = at_home && !is_local(node.device);
      entry->second = stays ? home : find_device(node.device.filled_from(home).to_string()).name;
    }
    DeviceName device = entry->second;
    for (const NodeOutput input : node.inputs) {
      if (const auto resource = resources.find(input); resource != resources.end()) {
        device = resource->second;
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

Trace::Trace(const std::string& name, std::vector<Spec> arguments, const Device& home,
             const TracedBody& body)
    : arguments_(std::move(arguments)), home_(home) {
  const RecordingPause pause;  // what is traced is recorded when it is called, not now
  const SettingsScope noting;
  function_ = trace(name, arguments_, [&](std::span<const Tensor> symbols) {
    TracedResults traced = body(symbols);
    structure_ = std::move(traced.structure);
    return std::move(traced.tensors);
  });
  settings_ = noting.used();
  may_wait_ = has_trait(*function_->body, Trait::MayWait);
}

const CompiledRun* Trace::parts() const {
  compile_once_.call([&] {
    const std::vector<DeviceName> devices = devices_of_body(*function_, home_.name);
    const bool at_home = std::ranges::all_of(
        devices, [&](const DeviceName& device) { return device == home_.name; });
    if (at_home) return;
    parts_ = compile_parts(*function_->body, devices,
                           {.feeds = function_->arguments,
                            .fetches = function_->results,
                            .targets = function_->effects});
  });
  return parts_.get();
}

}  // namespace cohort::internal
