#include "train_loop/check_devices.h"

#include "base/raise.h"
#include "graph/handles.h"
#include "ops/all_ops.h"

namespace cohort::internal {

void require_devices_of_variables(const Graph& graph) {
  const std::shared_ptr<GraphImpl>& impl = GraphAccess::impl(graph);
  for (int id = 0; id < impl->size(); ++id) {
    const Node& node = impl->node(id);
    if (node.op != &kVariableHandle || device_asked_for(*impl, id) != DeviceName()) continue;
    raise(Code::InvalidArgument,
          "[Supervisor] When using replicas, all Variables must have their device set: '{}' has "
          "none, so that each replica would have its own; make it inside "
          "device(replica_device_setter(...))",
          node.name);
  }
}

}  // namespace cohort::internal
