#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cohort/error.h"
#include "graph/run_request.h"

namespace cohort::internal {

// A run in pieces: which of its nodes have run, and the values that later pieces take from these
// nodes. Handles of state are not values; the nodes that make them run whenever they are needed.
// One piece runs at a time. Thread-safe.
class PartialRunState {
 public:
  // Runs a request with these values of its feeds; returns the values of its fetches.
  using Execute =
      std::function<std::vector<Tensor>(const RunRequest&, const std::vector<Tensor>& values)>;

  PartialRunState(std::shared_ptr<const GraphImpl> graph, RunRequest declared);

  // Runs one piece. Throws InvalidArgument, and changes nothing, for a feed or fetch that was not
  // declared, comes twice, or cannot be computed yet. An error of `execute` ends the run: later
  // pieces throw it, too.
  std::vector<Tensor> advance(const GraphImpl& graph, const RunRequest& asked,
                              const std::vector<Tensor>& values, const Execute& execute);

 private:
  void check(const RunRequest& asked) const;
  void check_computable(const RunRequest& asked, const std::vector<int>& nodes,
                        const std::set<NodeOutput>& known) const;
  // The outputs of nodes of this piece that later pieces will take.
  std::vector<NodeOutput> kept_of(const std::set<int>& nodes, const RunRequest& asked) const;
  std::vector<Tensor> run(const RunRequest& asked, const std::vector<int>& nodes,
                          const Execute& execute);

  const std::shared_ptr<const GraphImpl> graph_;
  const RunRequest declared_;
  const std::vector<int> all_;  // nodes that the declared fetches need
  const std::set<NodeOutput> feeds_;
  const std::set<NodeOutput> fetches_;

  std::mutex mutex_;
  std::map<NodeOutput, Tensor> values_;  // fed or computed; guarded by mutex_, as all below
  std::set<NodeOutput> fed_;
  std::set<NodeOutput> fetched_;
  std::set<int> over_;
  Status failure_;
};

}  // namespace cohort::internal
