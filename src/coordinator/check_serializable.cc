#include "base/raise.h"
#include "coordinator/graph_nodes.h"
#include "coordinator/shipping.h"
#include "graph/serialize.h"

namespace cohort::internal {
namespace {

void check_captured(const GraphFunction& function) {
  for (const Tensor& captured : function.captured) {
    if (captured.is_symbolic()) {
      raise(Code::FailedPrecondition,
            "[Coordinator] function '{}' uses a tensor of the graph or function around it, which "
            "workers do not have; pass it as an argument",
            function.name);
    }
    const Resource* resource = resource_of(captured).get();
    if (dynamic_cast<const RemoteCell*>(resource) != nullptr) continue;
    if (dynamic_cast<const WorkerCell*>(resource) != nullptr) continue;
    if (const auto* cell = dynamic_cast<const VariableCell*>(resource)) {
      raise(Code::FailedPrecondition,
            "[Coordinator] function '{}' uses variable '{}' of this process, which workers do not "
            "reach; make it inside strategy.scope()",
            function.name, cell->name());
    }
  }
}

}  // namespace

// What ship() and the serialized form refuse is found out by trying, in a graph that nobody runs.
void check_serializable(const GraphFunction& function, std::span<const Tensor> arguments) {
  check_captured(function);
  const auto graph = std::make_shared<GraphImpl>();
  const DeviceName home = DeviceName::parse("/job:worker/replica:0/task:0/device:CPU:0");
  ship(function, arguments,
       {.graph = *graph,
        .home = home,
        .container = "",
        .bind_iterator =
            [&](const std::shared_ptr<const ElementSource>& source) {
              return add_iterator_handle(*graph, {"", source->name(), source->describe_dataset()},
                                         home);
            },
        .bind_variable =
            [&](const std::shared_ptr<const WorkerCell>& cell) {
              return add_variable_handle(*graph, "", cell->unique_name(), home);
            }});
  (void)serialize_graph(*graph);
}

}  // namespace cohort::internal
