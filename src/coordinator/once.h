#pragma once

#include <set>
#include <string>

#include "graph/call_function.h"

namespace cohort::internal {

// Makes the changes that a call makes of state on other tasks happen once: when the call is
// repeated because its worker was lost, what it changed before is not changed again. In cond() and
// while_loop() too: there a repetition also takes the branches, and makes the iterations, that were
// decided on before. One for all changes of a function, which it numbers.
class OnceGuard {
 public:
  // `graph` is where the function goes, and `container` that of the strategy's variables.
  OnceGuard(GraphImpl& graph, std::string container)
      : graph_(graph), container_(std::move(container)) {}

  // `node`, which is not yet part of the graph and all inputs of which are, as one that makes its
  // changes once. `guarded` are the handles of the state that this is about, in the graph; `claim`
  // names the call to the task that has the state, see kOnce. May add nodes that the node needs.
  Node guard(Node node, const std::set<NodeOutput>& guarded, NodeOutput claim);

 private:
  // Of cond() and while_loop().
  Node guard_calls(Node node, const std::set<NodeOutput>& guarded, NodeOutput claim);

  GraphImpl& graph_;
  const std::string container_;
  int64_t next_number_ = 0;
};

}  // namespace cohort::internal
