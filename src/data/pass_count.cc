#include "data/pass_count.h"

#include <algorithm>
#include <functional>
#include <set>

#include "data/node.h"

namespace cohort::data::internal {
namespace {

void for_each_stage(const Dataset& dataset, const std::function<void(const Node&)>& visit) {
  std::set<const Node*> seen;
  std::vector<const Node*> open{DatasetAccess::node(dataset).get()};
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    visit(*node);
    for (const NodePtr& input : node->inputs) open.push_back(input.get());
  }
}

}  // namespace

int64_t next_pass(const Dataset& dataset) {
  int64_t number = 0;
  for_each_stage(dataset, [&](const Node& node) { number = std::max(number, node.passes.next()); });
  return number;
}

void set_next_pass(const Dataset& dataset, int64_t number) {
  for_each_stage(dataset, [&](const Node& node) { node.passes.set_next(number); });
}

void raise_next_pass(const Dataset& dataset, int64_t least) {
  for_each_stage(dataset, [&](const Node& node) { node.passes.raise_next(least); });
}

}  // namespace cohort::data::internal
