#pragma once

#include <set>
#include <string>

#include "graph/function_graph.h"

namespace cohort::internal {

// Rewrites the nodes of a function so that its changes of state on other tasks are idempotent: when
// the call is repeated because its worker was lost, changes that were made before are not made
// again. This includes changes in cond() and while_loop(): a repetition takes the branches and
// makes the iterations that were decided on before. One rewriter numbers all changes of a function.
class IdempotentRewriter {
 public:
  // `graph` is where the function goes. `container` is that of the strategy's variables.
  IdempotentRewriter(GraphImpl& graph, std::string container)
      : graph_(graph), container_(std::move(container)) {}

  // Returns `node` as one whose changes are idempotent. The node is not yet part of the graph, and
  // all its inputs are. `guarded` are the handles in the graph of the state concerned. `call_id`
  // names the call to the task that has the state, see kIdempotentUpdate. May add nodes that the
  // node needs.
  Node rewrite(Node node, const std::set<NodeOutput>& guarded, NodeOutput call_id);

 private:
  // For a cond() or a while_loop().
  Node rewrite_calls(Node node, const std::set<NodeOutput>& guarded, NodeOutput call_id);

  GraphImpl& graph_;
  const std::string container_;
  int64_t next_number_ = 0;
};

}  // namespace cohort::internal
