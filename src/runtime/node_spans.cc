#include "runtime/node_spans.h"

#include "base/timeline.h"

namespace cohort::internal {

void add_nodes_to_timeline(const std::vector<StepTime>& nodes, std::string_view device) {
  constexpr auto kShortest = std::chrono::microseconds(20);
  const int row = timeline_row(device);
  for (const StepTime& node : nodes) {
    if (node.end - node.start < kShortest) continue;
    add_to_timeline(row, "node", node.node->name, node.start, node.end);
  }
}

}  // namespace cohort::internal
