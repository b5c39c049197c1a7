#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/prune.h"

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
    uint32_t last_uses = 0;     // bit i: input i's slot is not needed after this step
    bool check_inputs = false;  // a shape was not known when the node was made
    int first_unused = 0;       // into unused_outputs
    int num_unused = 0;
    int64_t arrives_by = -1;  // the edge, when the step takes a tensor from another part,
    int64_t leaves_by = -1;   // or gives one to another part
  };

  std::shared_ptr<const GraphImpl> graph;  // keeps nodes alive
  // The first ones are settled: they give the same in every run on one device (constants, handles
  // of variables), and fill the slots right behind those of the feeds.
  std::vector<Step> steps;
  size_t num_settled = 0;
  int first_settled_slot = 0;
  int num_settled_slots = 0;
  std::vector<int> input_slots;
  std::vector<int> feed_slots;
  std::vector<int> fetch_slots;
  std::vector<int> unused_outputs;  // slots that nobody reads, dropped after the step
  int num_slots = 0;
};

// EffectsEarly: nodes that change state run as early as they may, once the readers of the old state
// are done, so that gradients are free as soon as they are used. AsMade: in the order of the nodes'
// making, which parts of one cut graph share, so that none waits for one that waits for it.
enum class StepOrder { EffectsEarly, AsMade };

// Keeps what the fetches and targets need, stopping at feeds, and puts it in an order in which
// every input comes first.
std::shared_ptr<const Plan> compile(std::shared_ptr<const GraphImpl> graph,
                                    const RunRequest& request, StepOrder order);

}  // namespace cohort::internal
