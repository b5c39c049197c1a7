#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph_impl.h"

namespace cohort::internal {

// A part of a graph, pruned, ordered and flattened for running: steps over numbered slots, no names
// and no maps. Immutable, so any number of threads may run one at the same time.
struct Plan {
  struct Step {
    const OpDef* op;
    const Node* node;  // for messages and traces; its attributes are the step's
    int first_input;   // into input_slots
    int num_inputs;
    int first_output;  // slots are numbered consecutively per step
    int num_outputs;
    uint32_t last_uses = 0;  // bit i: input i's slot is not needed after this step
    bool check_inputs = false;  // a shape was not known when the node was made
  };

  std::shared_ptr<const GraphImpl> graph;  // keeps nodes alive
  std::vector<Step> steps;
  std::vector<int> input_slots;
  std::vector<int> feed_slots;   // -1: fed, but used by nobody
  std::vector<int> fetch_slots;
  // Outputs that nobody needs, dropped after the step that makes them.
  std::vector<std::vector<int>> unused_outputs;
  int num_slots = 0;
};

struct PlanRequest {
  std::vector<Endpoint> feeds;
  std::vector<Endpoint> fetches;
  std::vector<int> targets;  // nodes to run for their effect
};

// Keeps what the fetches and targets need, stopping at feeds, and puts it in an order in which every
// input comes first. Nodes that change state run as early as they may, once the readers of the old
// state are done, so that gradients are free as soon as they are used.
std::shared_ptr<const Plan> compile(std::shared_ptr<const GraphImpl> graph,
                                    const PlanRequest& request);

}  // namespace cohort::internal
