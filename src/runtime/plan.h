#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/run_request.h"

namespace cohort::internal {

// A part of a graph, pruned, ordered and flattened for running: steps over numbered slots, without
// names and maps. It is immutable, so that any number of threads may run it at the same time.
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
  // The first `num_settled` steps are settled: they give the same values in every run on one device
  // (constants, handles of variables). Their outputs fill the slots right after those of the feeds.
  std::vector<Step> steps;
  size_t num_settled = 0;
  int first_settled_slot = 0;
  int num_settled_slots = 0;
  std::vector<int> input_slots;
  std::vector<int> feed_slots;
  std::vector<int> fetch_slots;
  std::vector<int> unused_outputs;  // slots that no step reads, dropped after the step
  int num_slots = 0;
};

// EffectsEarly: nodes that change state run as early as possible, after the readers of the old
// state, so that gradients are freed as soon as they are used. AsMade: nodes run in the order in
// which they were made. All parts of a cut graph share that order, so that no two parts wait for
// each other.
enum class StepOrder { EffectsEarly, AsMade };

// Keeps the nodes that the fetches and targets need, back to the feeds, and puts them in an order
// in which every input comes before its readers.
std::shared_ptr<const Plan> compile(std::shared_ptr<const GraphImpl> graph,
                                    const RunRequest& request, StepOrder order);

}  // namespace cohort::internal
