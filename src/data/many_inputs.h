#pragma once

// What stages with several inputs share.

#include "data/stage.h"

namespace cohort::data::internal {

// Throws InvalidArgument when there is none.
inline void check_inputs(std::string_view stage, const Node& node) {
  if (node.inputs.empty()) raise(Code::InvalidArgument, "[{}] needs at least one dataset", stage);
}

// A cursor over all inputs.
class ManyCursor : public Cursor {
 public:
  ManyCursor(const Node& node, const Context& context) : node_(node), context_(context) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      inputs_.push_back(node.inputs[i]->open(context.for_input(i)));
    }
  }

 protected:
  void save_inputs(StateWriter& state) {
    for (const CursorPtr& input : inputs_) input->save(state);
  }
  void restore_inputs(StateReader& state) {
    for (const CursorPtr& input : inputs_) input->restore(state);
  }

  const Node& node_;
  const Context context_;
  std::vector<CursorPtr> inputs_;
};

// Of all inputs' elements, one after the other in any order.
inline int64_t sum_of_cardinalities(const Node& node) {
  int64_t sum = 0;
  bool unknown = false;
  for (const NodePtr& input : node.inputs) {
    const int64_t count = input->cardinality();
    if (count == kInfinite) return kInfinite;
    if (count == kUnknownCardinality) unknown = true;
    if (count > 0 && __builtin_add_overflow(sum, count, &sum)) sum = INT64_MAX;
  }
  return unknown ? kUnknownCardinality : sum;
}

inline std::optional<ElementSpec> common_spec(const Node& node) {
  std::optional<ElementSpec> all = node.input().spec();
  for (const NodePtr& input : node.inputs) all = common(all, input->spec());
  return all;
}

inline std::vector<NodePtr> nodes_of(const std::vector<Dataset>& datasets) {
  std::vector<NodePtr> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(DatasetAccess::node(dataset));
  return nodes;
}

}  // namespace cohort::data::internal
